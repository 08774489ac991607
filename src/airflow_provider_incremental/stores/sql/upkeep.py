"""Upkeep of the log in the database: what is dead, who consumes, what is given again, what nobody needs any more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.journal import CRASHED, UNSUBSCRIBED, replayed
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql import claim_statements, statements, upkeep_statements
from airflow_provider_incremental.stores.sql.claims import advance
from airflow_provider_incremental.stores.sql.codec import batches_from, key_from
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.journal import Journal

__all__ = ["Upkeep"]

_SKIPPED = "before the start"


class Upkeep:
    """The operations that people ask for, and those that clear away.

    :param now: the time that stamps what is written.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]], journal: Journal) -> None:
        self._database = database
        self._now = now
        self._journal = journal
        self._insert_claim = claim_statements.insert_claim(database.dialect)

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """See the protocol."""
        now = await self._now()
        asked = _asset(selector) | {"consumer": consumer, "max_attempts": max_attempts, **statements.at(now)}
        rows = await self._rows(upkeep_statements.SELECT_HOPELESS, asked)
        buried = [row for row in rows if selector.matches(key_from(row)) and await self._bury(row, now)]
        return await _dead(buried, error=CRASHED, since=now)

    async def _bury(self, row: Any, now: dt.datetime) -> bool:
        """Set one batch aside unless somebody took it meanwhile."""
        names = {"watermark": row.watermark_id, "consumer_": row.consumer, **statements.at(now)}
        as_read = names | {"seq_": row.seq, "attempt_": row.attempt, "holder_": row.holder, "error": CRASHED}

        async def work(connection: AsyncConnection) -> bool:
            await connection.execute(claim_statements.LOCK_CONSUMER, names)
            if not (await connection.execute(upkeep_statements.BURY, as_read)).rowcount:
                return False
            await advance(connection, key_from(row), row.consumer)
            return True

        return await self._database.write(work, repeatable=False)

    async def dead_batches(self, selector: Selector | None, consumer: str | None, limit: int) -> list[DeadBatch]:
        """See the protocol."""
        statement = upkeep_statements.select_dead(of_asset=selector is not None, of_consumer=consumer is not None)
        asked = ({} if selector is None else _asset(selector)) | ({} if consumer is None else {"consumer": consumer})
        rows = await self._rows(statement, asked)
        chosen = [row for row in rows if selector is None or selector.matches(key_from(row))]
        return await _dead(chosen[:limit])

    async def consumers(self, selector: Selector | None) -> list[ConsumerStatus]:
        """See the protocol."""
        if selector is None:
            rows = await self._rows(upkeep_statements.SELECT_CONSUMERS, {})
        else:
            rows = await self._rows(upkeep_statements.SELECT_CONSUMERS_OF_ASSET, _asset(selector))
        found = [_status(row) for row in rows if selector is None or selector.matches(key_from(row))]
        return sorted(found, key=lambda each: (each.key.asset_name, each.key.namespace, each.key.key, each.consumer))

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None) -> list[WatermarkKey]:
        """See the protocol."""
        now = await self._now()

        async def work(connection: AsyncConnection) -> list[WatermarkKey]:
            asked = _asset(selector) | {"consumer": consumer}
            rows = (await connection.execute(upkeep_statements.SELECT_KNOWN_OF_ASSET, asked)).all()
            gone = [key for key in map(key_from, rows) if selector.matches(key)]
            for key in gone:
                names = {"watermark": key.id, "consumer_": consumer}
                await connection.execute(upkeep_statements.DELETE_CLAIMS_OF_CONSUMER, names)
                await connection.execute(upkeep_statements.DELETE_CONSUMER, names)
                await self._journal.write(connection, key, now, "unsubscribe", UNSUBSCRIBED.format(consumer), act=act)
            return gone

        gone = await self._database.write(work, repeatable=False)
        return sorted(gone, key=lambda key: (key.namespace, key.key))

    async def replay(
        self,
        key: WatermarkKey,
        first_seq: int,
        last_seq: int,
        consumer: str | None,
        *,
        dead_only: bool,
        act: Act | None,
    ) -> dict[str, int]:
        """See the protocol."""
        now = await self._now()
        asked = {"watermark": key.id, "first": first_seq, "last": last_seq}

        async def work(connection: AsyncConnection) -> dict[str, int]:
            known = (await connection.execute(upkeep_statements.SELECT_KNOWN_OF_WATERMARK, asked)).all()
            given = {}
            for each in [each for each in known if consumer in (None, each.consumer)]:
                names = {"watermark": key.id, "consumer_": each.consumer, "now": now}
                await connection.execute(claim_statements.LOCK_CONSUMER, names)
                which = asked | {"consumer": each.consumer}
                rows = await connection.execute(upkeep_statements.SELECT_REPLAYABLE, which)
                seqs = [row.seq for row in rows if _is_over(row, each.start_seq, dead_only=dead_only)]
                given[each.consumer] = len(seqs)
                if seqs:
                    await self._give_again(connection, names, seqs, each.start_seq)
            if known:
                detail = replayed(first_seq, last_seq, given, dead_only=dead_only)
                await self._journal.write(connection, key, now, "replay", detail, act=act)
            return given

        return await self._database.write(work, repeatable=False)

    async def _give_again(
        self, connection: AsyncConnection, names: dict[str, Any], seqs: Sequence[int], start_seq: int
    ) -> None:
        """Take away what says that these are finished; what stays finished before the old start is then said."""
        before = {"watermark": names["watermark"], "consumer": names["consumer_"], "first": seqs[0], "last": start_seq}
        again = set(seqs)
        rows = (await connection.execute(upkeep_statements.SELECT_REPLAYABLE, before)).all()
        skipped = [_skipped(names, row.seq) for row in rows if row.seq not in again and row.state is None]
        for part in statements.in_parts(seqs):
            await connection.execute(upkeep_statements.DELETE_CLAIMS, names | {"seqs": part})
        for claims in statements.in_parts(skipped):
            await connection.execute(self._insert_claim, list(claims))
        progress = names | {"start": min(start_seq, seqs[0] - 1), "done": seqs[0] - 1}
        await connection.execute(upkeep_statements.SET_PROGRESS, progress)

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int) -> int:
        """See the protocol."""
        old = await self._now() - dt.timedelta(seconds=older_than)
        asked = {"watermark": key.id, "before": before_seq, "old": old, "most": limit}

        async def work(connection: AsyncConnection) -> int:
            # First, so that what a replay is giving again, or has just given, is not taken for finished.
            await connection.execute(upkeep_statements.LOCK_CONSUMERS, {"watermark": key.id})
            found = await connection.execute(upkeep_statements.SELECT_NEEDLESS, asked)
            deleted = 0
            for part in statements.in_parts([row.seq for row in found]):
                these = {"watermark": key.id, "seqs": part}
                deleted += (await connection.execute(upkeep_statements.PRUNE_BATCHES, these)).rowcount
                await connection.execute(upkeep_statements.PRUNE_CLAIMS, these)
            return deleted

        return await self._database.write(work, repeatable=True)

    async def _rows(self, statement: Any, asked: dict[str, Any]) -> Sequence[Any]:
        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(statement, asked)).all()

        return await self._database.read(work)


def _asset(selector: Selector) -> dict[str, Any]:
    return {"asset_hash_": statements.asset_hash(selector.asset_name)}


def _is_over(row: Any, start_seq: int, *, dead_only: bool) -> bool:
    """Whether a batch is finished for a consumer, or was never for it: only such can be given again."""
    if dead_only:
        return bool(row.state == "dead")
    return row.state in statements.FINISHED or (row.state is None and row.seq <= start_seq)


def _skipped(names: dict[str, Any], seq: int) -> dict[str, Any]:
    return {
        "watermark_id": names["watermark"],
        "consumer": names["consumer_"],
        "seq": seq,
        "state": "acknowledged",
        "holder": _SKIPPED,
        "attempt": 0,
        "claimed_at": names["now"],
        "lease_until": names["now"],
    }


def _status(row: Any) -> ConsumerStatus:
    return ConsumerStatus(
        key=key_from(row),
        consumer=row.consumer,
        start_seq=row.start_seq,
        done_seq=row.done_seq,
        pending=row.pending,
        dead=row.dead,
        first_seen_at=row.first_seen_at,
        last_seen_at=row.last_seen_at,
    )


async def _dead(rows: Sequence[Any], *, error: str | None = None, since: dt.datetime | None = None) -> list[DeadBatch]:
    keys = {row.watermark_id: key_from(row) for row in rows}
    listed = await batches_from(rows, keys)
    return [
        DeadBatch(
            batch=batch,
            consumer=row.consumer,
            attempts=row.attempt,
            error=row.last_error or error,
            since=since or row.lease_until,
        )
        for row, batch in zip(rows, listed, strict=True)
    ]
