"""The limit that MySQL and MariaDB set to one statement: known before it is met, since meeting it only hangs up."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.source import Pieces
from airflow_provider_incremental.stores.sql.codec import EncodedBatch

__all__ = ["require_room"]

_ALWAYS_FITS = 1_000_000
_REST_OF_THE_STATEMENT = 10_000


async def require_room(connection: AsyncConnection, batches: Sequence[EncodedBatch], remember: Pieces) -> None:
    """Raise when a batch, or a piece of memory, is too big for the server; asks it only when one is big at all.

    :raises StoreError: naming the size, the limit, and what can be done.
    """
    sizes = [_size(batch) for batch in batches] + [2 * len(piece or b"") for piece in remember.values()]
    size = max(sizes, default=0)
    if size <= _ALWAYS_FITS:
        return
    limit = int((await connection.exec_driver_sql("SELECT @@max_allowed_packet")).scalar_one())
    if size > limit:
        msg = (
            f"a batch takes {size:,} bytes, but the store's database takes {limit:,} at once. Nothing was changed; "
            "raise its max_allowed_packet, or let the trigger make smaller batches (max_rows)"
        )
        raise StoreError(msg)


def _size(batch: EncodedBatch) -> int:
    """Bytes of the statement that inserts a batch: its JSON is ASCII, and the driver escapes what could end a text."""
    items = batch.items
    if len(items) + 2 * len(batch.fingerprints) <= _ALWAYS_FITS // 2:
        return 0
    escapes = sum(items.count(character) for character in "\"'\\")
    return len(items) + escapes + 2 * len(batch.fingerprints) + _REST_OF_THE_STATEMENT
