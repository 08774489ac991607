"""The commit on PostgreSQL: one statement, prepared once a connection, straight through asyncpg.

It is what every batch waits for. SQLAlchemy's own way through a statement costs more than the statement itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import asyncpg
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.stores.sql.codec import EncodedBatch

__all__ = ["hot_commit"]

_CLOSE_TIMEOUT = 2.0
_COMMIT = """
WITH moved AS (
    UPDATE asset_watermarks
    SET cursor = $3, version = version + 1, last_seq = last_seq + $4, moved_at = $5, last_poll_at = $6,
        last_error = $7, last_error_at = CASE WHEN $7::text IS NULL THEN last_error_at ELSE $6 END,
        failures = $8, conflicts = conflicts + $9, late_skipped = late_skipped + $10, note = $11
    WHERE id = $1 AND version = $2
        AND (version > 0 OR (watches_source, watches_cursor) IS NOT DISTINCT FROM ($19::text, $20::text))
    RETURNING id, version, last_seq, reread_after_seq, watches_source, watches_cursor, last_error_at, conflicts,
        late_skipped
), appended AS (
    INSERT INTO asset_watermark_batches
        (watermark_id, seq, id, kind, low, high, count, items, items_bytes, fingerprints, committed_at)
    SELECT moved.id, moved.last_seq - $4 + new.number, new.id, new.kind, new.low, new.high, new.count,
        new.items, octet_length(new.items), new.fingerprints, $5
    FROM moved, unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::bytea[])
        WITH ORDINALITY AS new (id, kind, low, high, count, items, fingerprints, number)
)
SELECT * FROM moved
"""


async def hot_commit(connection: AsyncConnection, values: dict[str, Any], batches: Sequence[EncodedBatch]) -> Any:
    """Move a watermark and append batches; return the columns of the moved row that the caller cannot know.

    :param values: what :data:`statements.MOVE` binds.
    :return: None when the version is another one, or when the id of a batch is in the log: nothing was changed.
    """
    driver = _driver(connection)
    try:
        return await driver.fetchrow(
            _COMMIT,
            values["watermark"],
            values["version_"],
            values["cursor_"],
            values["added"],
            values["moved_at_"],
            values["now"],
            values["error"],
            values["failures_"],
            values["conflicts_"],
            values["late_skipped_"],
            values["note_"],
            [batch.id for batch in batches],
            [batch.kind for batch in batches],
            [batch.low for batch in batches],
            [batch.high for batch in batches],
            [batch.count for batch in batches],
            [batch.items for batch in batches],
            [batch.fingerprints for batch in batches],
            values["source"],
            values["shape"],
        )
    except asyncpg.UniqueViolationError:
        return None
    except asyncpg.PostgresError:
        raise  # the server has answered: the connection is as good as before
    except BaseException:
        await asyncio.shield(_discard(connection, driver))
        raise


async def _discard(connection: AsyncConnection, driver: Any) -> None:
    """Close a connection in the middle of a statement: SQLAlchemy does not see what went wrong on it."""
    with contextlib.suppress(asyncpg.InterfaceError, asyncpg.PostgresError, OSError):
        # Waits for the server to end the statement, so that it is not applied long after its caller has given up.
        await driver.close(timeout=_CLOSE_TIMEOUT)
    await connection.invalidate()


def _driver(connection: AsyncConnection) -> Any:
    if connection.sync_connection is None:
        raise AssertionError  # it is connected
    return connection.sync_connection.connection.driver_connection
