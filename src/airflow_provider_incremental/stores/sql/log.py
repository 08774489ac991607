"""The batch log in the database: what is due for announcement, what was confirmed, what was seen, the history."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import Batch, SeenBatch, inlined
from airflow_provider_incremental.core.store import RETURNS_WITHIN
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql import due_statements, statements
from airflow_provider_incremental.stores.sql.codec import batches_from, seen_from
from airflow_provider_incremental.stores.sql.database import Database

__all__ = ["Log"]

_AFTER_ALL = 2**62
_CONSUMERS_A_STATEMENT = 100


class Log:
    """The operations on the batch log.

    :param now: the time that stamps what is written and that leases are compared with.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]]) -> None:
        self._database = database
        self._now = now
        self._unconfirmed = due_statements.select_unconfirmed(database.dialect)

    async def due(
        self, key: WatermarkKey, redeliver_after: float, skip: Collection[int], inline_bytes: int, limit: int
    ) -> list[Batch]:
        """See the protocol."""
        now = await self._now()
        # Skipped ones may come first in either list, so as many more are asked for.
        asked = {"watermark": key.id, "most": limit + len(skip), **_seen(now)}
        again = asked | statements.at(now) | {"announced_before": now - dt.timedelta(seconds=redeliver_after)}

        async def work(connection: AsyncConnection) -> tuple[list[Any], dict[str, str]]:
            rows = list(await connection.execute(self._unconfirmed, asked))
            lagging = await _without_lease(connection, again)
            for part in statements.in_parts(lagging):
                waits = {"lagging": [each.consumer for each in part], "done": min(each.done_seq for each in part)}
                rows += await connection.execute(due_statements.SELECT_UNACKNOWLEDGED, again | waits)
            found = {row.seq: row for row in rows if row.seq not in skip}
            due = [found[seq] for seq in sorted(found)[:limit]]
            chosen = inlined((row.items_bytes for row in due), inline_bytes)
            return due, await _payloads(connection, [row.id for row, inline in zip(due, chosen, strict=True) if inline])

        due, payloads = await self._database.read(work)
        return await batches_from(due, {key.id: key}, [payloads.get(row.id) for row in due])

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """See the protocol."""
        now, pause = await self._now(), dt.timedelta(seconds=interval)
        turn = {"watermark": key.id, "now": now, "long_ago": now - pause, "too_late": now + pause, "up_to": up_to_seq}

        async def work(connection: AsyncConnection) -> float:
            before = (await connection.execute(statements.SELECT_ANNOUNCED, turn)).first()
            if before is None:
                return interval
            await connection.execute(statements.CONFIRM_SETTLED, turn | _seen(now) | {"told": before.announced_seq})
            if (await connection.execute(statements.BEGIN_ANNOUNCEMENT, turn)).rowcount:
                return 0.0
            last = (await connection.execute(statements.SELECT_ANNOUNCED, turn)).first()
            return interval if last is None else min((last.announced_at + pause - now).total_seconds(), interval)

        return await self._database.write(work, repeatable=False)

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """See the protocol."""
        now = await self._now()
        parts = list(statements.in_parts(sorted(batch_ids)))

        async def work(connection: AsyncConnection) -> None:
            for part in parts:
                await connection.execute(statements.CONFIRM, {"watermark": key.id, "ids": part, "now": now})

        if len(parts) == 1:
            await self._database.statement(work, repeatable=True)
        elif parts:
            await self._database.write(work, repeatable=True)

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """See the protocol."""
        before = _AFTER_ALL if before_seq is None else before_seq
        asked = {"watermark": key.id, "after": after_seq, "before": before, "most": limit}

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(statements.SELECT_SEEN, asked)).all()

        return await seen_from(await self._database.read(work), key)

    async def history(self, key: WatermarkKey, before_seq: int | None, limit: int) -> list[Batch]:
        """See the protocol."""
        asked = {"watermark": key.id, "before": _AFTER_ALL if before_seq is None else before_seq, "most": limit}

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(statements.SELECT_HISTORY, asked)).all()

        return await batches_from(await self._database.read(work), {key.id: key})


def _seen(now: dt.datetime) -> dict[str, Any]:
    return {"seen_after": now - dt.timedelta(seconds=RETURNS_WITHIN)}


async def _without_lease(connection: AsyncConnection, asked: dict[str, Any]) -> list[Any]:
    """Return the consumers that have not finished everything and hold nothing: those that have to be called."""
    lagging = (await connection.execute(due_statements.SELECT_LAGGING, asked)).all()
    holding: set[str] = set()
    for part in statements.in_parts(lagging, _CONSUMERS_A_STATEMENT):
        names = {f"consumer{number}": each.consumer for number, each in enumerate(part)}
        edges = {f"done{number}": each.done_seq for number, each in enumerate(part)}
        rows = await connection.execute(due_statements.select_holding(len(part)), asked | names | edges)
        holding.update(row.consumer for row in rows)
    return [each for each in lagging if each.consumer not in holding]


async def _payloads(connection: AsyncConnection, ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in statements.in_parts(ids):
        rows = await connection.execute(statements.SELECT_PAYLOADS, {"ids": part})
        found |= {row.id: row.payload for row in rows}
    return found
