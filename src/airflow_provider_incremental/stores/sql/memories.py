"""What sources remember, in the database: named pieces of bytes that change only together with their watermark."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.source import Pieces
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.statements import in_parts
from airflow_provider_incremental.stores.sql.tables import memories

__all__ = ["Memories"]

_THIS = memories.c.watermark_id == sa.bindparam("watermark")
_FORGET = sa.delete(memories).where(_THIS)
_DELETE = _FORGET.where(memories.c.name.in_(sa.bindparam("names", expanding=True)))
# Between two names and not LIKE: every database then reads one range of the primary key, in its order.
_READ = (
    sa.select(memories.c.name, memories.c.piece)
    .where(_THIS, memories.c.name > sa.bindparam("above"), memories.c.name >= sa.bindparam("first"))
    .where(memories.c.name < sa.bindparam("beyond"))
    .order_by(memories.c.name)
    .limit(sa.bindparam("most", type_=sa.Integer()))
)
_AFTER_ASCII = "\x7f"


class Memories:
    """The pieces of all watermarks."""

    def __init__(self, *, database: Database) -> None:
        self._database = database
        as_hex = database.dialect.bytes_as_hex
        piece: Any = sa.func.unhex(sa.bindparam("hexed", type_=sa.Text())) if as_hex else sa.bindparam("bytes_")
        self._insert = sa.insert(memories).values(piece=piece)

    async def read(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """See :meth:`core.store.WatermarkStore.remembered`."""
        names = {"above": after, "first": prefix, "beyond": prefix + _AFTER_ASCII}
        asked = {"watermark": key.id, "most": limit, **names}

        async def work(connection: AsyncConnection) -> list[Any]:
            return list(await connection.execute(_READ, asked))

        return [(row.name, bytes(row.piece)) for row in await self._database.read(work)]

    async def change(self, connection: AsyncConnection, key: WatermarkKey, pieces: Pieces) -> None:
        """Write and forget pieces, in the transaction of the caller."""
        for part in in_parts(list(pieces)):
            await connection.execute(_DELETE, {"watermark": key.id, "names": part})
        new = [
            {"watermark_id": key.id, "name": name, "hexed" if self._database.dialect.bytes_as_hex else "bytes_": value}
            for name, piece in pieces.items()
            if piece is not None
            for value in [piece.hex() if self._database.dialect.bytes_as_hex else piece]
        ]
        if new:
            await connection.execute(self._insert, new)

    async def forget(self, connection: AsyncConnection, key: WatermarkKey) -> None:
        """Forget all of a watermark's pieces, in the transaction of the caller."""
        await connection.execute(_FORGET, {"watermark": key.id})
