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
from airflow_provider_incremental.stores.sql.spare import driver_of

__all__ = ["hot_commit"]

_CLOSE_TIMEOUT = 2.0
_COMMIT = """
WITH moved AS (
    UPDATE asset_watermarks
    SET cursor = $3, version = version + 1, last_seq = last_seq + {added}, moved_at = $4, last_poll_at = $5,
        last_error = $6, last_error_at = CASE WHEN $6::text IS NULL THEN last_error_at ELSE $5 END,
        failures = $7, conflicts = conflicts + $8, late_skipped = late_skipped + $9, note = $10,
        next_poll_at = $13
    WHERE id = $1 AND version = $2 AND created_at = $14
        AND (version > 0 OR (watches_source, watches_cursor) IS NOT DISTINCT FROM ($11::text, $12::text))
    RETURNING id, version, last_seq, reread_after_seq, watches_source, watches_cursor, last_error_at, conflicts,
        late_skipped
), appended AS (
    INSERT INTO asset_watermark_batches
        (watermark_id, seq, id, kind, low, high, count, items, items_bytes, fingerprints, committed_at)
    {appended}
)
SELECT * FROM moved
"""
_ONE = "SELECT moved.id, moved.last_seq, $15, $16, $17, $18, $19, $20, octet_length($20), $21, $4 FROM moved"
_SEVERAL = """
    SELECT moved.id, moved.last_seq - cardinality($15::text[]) + new.number, new.id, new.kind, new.low, new.high,
        new.count, new.items, octet_length(new.items), new.fingerprints, $4
    FROM moved, unnest($15::text[], $16::text[], $17::text[], $18::text[], $19::bigint[], $20::text[], $21::bytea[])
        WITH ORDINALITY AS new (id, kind, low, high, count, items, fingerprints, number)
"""
# Nearly every commit has one batch; arrays for one element would cost both sides a good part of it.
_COMMIT_ONE = _COMMIT.replace("{added}", "1").replace("{appended}", _ONE)
_COMMIT_SEVERAL = _COMMIT.replace("{added}", "cardinality($15::text[])").replace("{appended}", _SEVERAL)
_MOVE = (
    *("watermark", "version_", "cursor_", "moved_at_", "now", "error", "failures_", "conflicts_", "late_skipped_"),
    *("note_", "source", "shape", "next_poll_at_", "created_at_"),
)


async def hot_commit(connection: AsyncConnection, values: dict[str, Any], batches: Sequence[EncodedBatch]) -> Any:
    """Move a watermark and append batches; return the columns of the moved row that the caller cannot know.

    :param values: what :data:`statements.MOVE` binds.
    :return: None when the version is another one, or when the id of a batch is in the log: nothing was changed.
    """
    driver = driver_of(connection)
    columns = list(zip(*map(_columns, batches), strict=True)) or [()] * 7
    one = len(batches) == 1
    appended = [column[0] for column in columns] if one else columns
    try:
        return await driver.fetchrow(
            _COMMIT_ONE if one else _COMMIT_SEVERAL, *[values[name] for name in _MOVE], *appended
        )
    except asyncpg.UniqueViolationError:
        return None
    except asyncpg.PostgresError:
        raise  # the server has answered: the connection is as good as before
    except BaseException:
        await asyncio.shield(_discard(connection, driver))
        raise


def _columns(batch: EncodedBatch) -> tuple[Any, ...]:
    return (batch.id, batch.kind, batch.low, batch.high, batch.count, batch.items, batch.fingerprints)


async def _discard(connection: AsyncConnection, driver: Any) -> None:
    """Close a connection in the middle of a statement: SQLAlchemy does not see what went wrong on it."""
    with contextlib.suppress(asyncpg.InterfaceError, asyncpg.PostgresError, OSError):
        # Waits for the server to end the statement, so that it is not applied long after its caller has given up.
        async with asyncio.timeout(_CLOSE_TIMEOUT):  # asyncpg's own does not count until its cancellation is sent
            await driver.close(timeout=_CLOSE_TIMEOUT)
    await connection.invalidate()
