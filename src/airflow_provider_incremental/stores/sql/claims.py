"""Consumers and their claims in the database: who has which batch, until when, and who is done with it.

Two claims never get the same batch: a claim is an INSERT that leaves an existing row alone, or an UPDATE on the
condition that the row is still as it was read; of two at once the database lets one change the row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import Batch, Claim
from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql import claim_statements, statements
from airflow_provider_incremental.stores.sql.codec import batch_from, batches_from, key_from, text_or_none
from airflow_provider_incremental.stores.sql.consumers import Subscription, require_consumer, require_holder
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.readable import UnreadableError

__all__ = ["Claims", "advance"]

_WATERMARKS_A_STATEMENT = 50
_CANDIDATES = 8
_IN_ORDER = 64  # at most so many does one holder have at once where none may be overtaken


class Claims:
    """The operations of consumers.

    :param now: the time that stamps what is written and that leases are compared with.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]]) -> None:
        self._database = database
        self._now = now
        self._insert = claim_statements.insert_claim(database.dialect)

    async def claim(
        self, selector: Selector, consumer: str, holder: str, lease: float, batch_id: str | None, *, ordered: bool
    ) -> Claim | None:
        """See the protocol."""
        require_consumer(consumer)
        require_holder(holder)
        unreadable: dict[str, UnreadableError] = {}
        while True:
            rows = await self._waiting(selector, consumer, holder, batch_id, _most(unreadable), ordered=ordered)
            if rows and all(row.id in unreadable for _, row in rows):
                raise next(iter(unreadable.values()))
            if not rows:
                return None
            for key, row in rows:
                if row.id in unreadable:
                    continue
                try:
                    claim = await self._take(key, row, consumer, holder, lease)
                except UnreadableError as error:  # it keeps the others from nobody
                    unreadable[row.id] = error
                    continue
                if claim is not None:
                    return claim

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """See the protocol."""
        now = await self._now()
        until = now + dt.timedelta(seconds=lease)
        values = _names(claim) | {"now": now, "until": until}

        async def work(connection: AsyncConnection) -> int:
            return (await connection.execute(claim_statements.RENEW, values)).rowcount

        if not await self._database.statement(work, repeatable=True):
            raise _lost(claim)
        return replace(claim, lease_until=until)

    async def acknowledge(self, claim: Claim) -> None:
        """See the protocol."""
        values = _names(claim) | {"now": await self._now()}

        async def work(connection: AsyncConnection) -> bool:
            # First, so that two batches acknowledged at once do not both find the other one unfinished.
            await connection.execute(claim_statements.LOCK_CONSUMER, values)
            if (await connection.execute(claim_statements.ACKNOWLEDGE, values)).rowcount:
                await advance(connection, claim.batch.key, claim.consumer)
                return True
            row = (await connection.execute(claim_statements.SELECT_CLAIM, values)).first()
            # No row: somebody forgot the watermark, so there is nothing left to acknowledge.
            return row is None or row.holder == claim.holder

        if not await self._database.write(work, repeatable=True):
            raise _lost(claim)

    async def release(self, claim: Claim, error: str | None, *, retry_after: float, dead: bool) -> None:
        """See the protocol."""
        now = await self._now()
        values = _names(claim) | {
            "now": now,
            "until": now + dt.timedelta(seconds=retry_after),
            "becomes": "dead" if dead else "released",
            "uncounted": int(error is None),
            "error": text_or_none(error),
        }

        async def set_aside(connection: AsyncConnection) -> None:
            await connection.execute(claim_statements.LOCK_CONSUMER, values)
            await connection.execute(claim_statements.RELEASE, values)
            await advance(connection, claim.batch.key, claim.consumer)

        if dead:
            await self._database.write(set_aside, repeatable=True)
        else:
            await self._database.statement(lambda each: each.execute(claim_statements.RELEASE, values), repeatable=True)

    async def pending(self, selector: Selector, consumer: str, limit: int, *, free: bool) -> list[Batch]:
        """See the protocol."""
        subscriptions = await self._behind(selector, consumer)
        asked = {"consumer": consumer, "most": limit, "claimer": "", **statements.at(await self._now())}

        async def work(connection: AsyncConnection) -> list[tuple[WatermarkKey, Any]]:
            return await _oldest(connection, subscriptions, asked, held_too=not free)

        found = (await self._database.read(work))[:limit] if subscriptions else []
        return await batches_from([row for _, row in found], {key.id: key for key, _ in found})

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """See the protocol."""
        asked = {"batch": batch_id, "consumer": consumer}

        async def work(connection: AsyncConnection) -> Any:
            return (await connection.execute(claim_statements.SELECT_STATE_OF_BATCH, asked)).first()

        row = await self._database.read(work)
        return row is not None and row.state == "acknowledged" and selector.matches(key_from(row))

    async def _behind(self, selector: Selector, consumer: str) -> list[Subscription]:
        """Return the selected watermarks where the consumer has not finished everything."""
        asked = {"asset_hash_": statements.asset_hash(selector.asset_name), "consumer": consumer}

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(claim_statements.SELECT_UNFINISHED_SUBSCRIPTIONS, asked)).all()

        rows = await self._database.read(work)
        found = [Subscription(key_from(row), row.done_seq) for row in rows]
        return [each for each in found if selector.matches(each.key)]

    async def _waiting(
        self, selector: Selector, consumer: str, holder: str, batch_id: str | None, most: int, *, ordered: bool
    ) -> list[tuple[WatermarkKey, Any]]:
        """Return the oldest batches that could be claimed now, with what was read of their claims.

        :param most: so many of each watermark, where any of them will do.
        """
        subscriptions = await self._behind(selector, consumer)
        if not subscriptions:
            return []
        now = await self._now()
        asked = {"consumer": consumer, "claimer": holder, **statements.at(now)}

        async def work(connection: AsyncConnection) -> list[tuple[WatermarkKey, Any]]:
            if ordered:
                found = await _oldest(connection, subscriptions, asked | {"most": _IN_ORDER}, held_too=True)
                return [each for each in _firsts(found, holder, now) if batch_id in (None, each[1].id)]
            if batch_id is None:
                return await _oldest(connection, subscriptions, asked | {"most": most}, held_too=False)
            row = (await connection.execute(claim_statements.SELECT_NAMED_WAITING, asked | {"batch": batch_id})).first()
            return [
                (each.key, row)
                for each in subscriptions
                if row is not None and row.watermark_id == each.key.id and row.seq > each.done_seq
            ]

        return await self._database.read(work)

    async def _take(self, key: WatermarkKey, row: Any, consumer: str, holder: str, lease: float) -> Claim | None:
        """Claim the batch of a row that :meth:`_waiting` returned, unless somebody was faster."""
        now = await self._now()
        until = now + dt.timedelta(seconds=lease)

        async def work(connection: AsyncConnection) -> Batch | UnreadableError | None:
            if row.state is None:
                changed = await connection.execute(self._insert, _new_claim(row, consumer, holder, now, until))
            else:
                changed = await connection.execute(
                    claim_statements.TAKE_OVER,
                    _as_read(row, consumer) | {"taker": holder, "until": until, **statements.at(now)},
                )
            if not changed.rowcount:
                return None
            asked = {"watermark": row.watermark_id, "seq_": row.seq}
            batch = (await connection.execute(claim_statements.SELECT_ITEMS, asked)).first()
            if batch is None or batch.id != row.id:  # the watermark was forgotten, and perhaps made anew
                await self._database.undo(connection)
                return None
            try:
                return await batch_from(row, key, batch.payload)
            except UnreadableError as error:
                await self._database.undo(connection)
                return error

        batch = await self._database.write(work, repeatable=False)
        if isinstance(batch, UnreadableError):
            raise batch
        if batch is None:
            return None
        attempt = (row.attempt or 0) + 1
        return Claim(batch=batch, consumer=consumer, holder=holder, attempt=attempt, lease_until=until)


def _most(unreadable: Collection[str]) -> int:
    """Return how many batches are looked at for one that can be claimed: past those that cannot be read."""
    return _CANDIDATES + 2 * len(unreadable)


async def _oldest(
    connection: AsyncConnection, subscriptions: Sequence[Subscription], asked: dict[str, Any], *, held_too: bool
) -> list[tuple[WatermarkKey, Any]]:
    """Return the oldest waiting batches of several logs, each log read by its own index, by time and then number."""
    found: list[tuple[WatermarkKey, Any]] = []
    for part in statements.in_parts(subscriptions, _WATERMARKS_A_STATEMENT):
        names = {f"watermark{number}": each.key.id for number, each in enumerate(part)}
        edges = {f"done{number}": each.done_seq for number, each in enumerate(part)}
        key_of = {each.key.id: each.key for each in part}
        statement = claim_statements.select_waiting(len(part), held_too=held_too)
        rows = await connection.execute(statement, asked | names | edges)
        found += [(key_of[row.watermark_id], row) for row in rows]
    return sorted(found, key=lambda each: (each[1].committed_at, each[1].seq, each[0].namespace, each[0].key))


def _firsts(found: list[tuple[WatermarkKey, Any]], holder: str, now: dt.datetime) -> list[tuple[WatermarkKey, Any]]:
    """Return of each log the first batch that this holder does not hold, where it can be claimed."""
    first: dict[WatermarkKey, Any] = {}
    for key, row in found:
        if row.state != "claimed" or row.holder != holder:
            first.setdefault(key, row)
    return [(key, row) for key, row in first.items() if row.state is None or _is_over(row, now)]


def _is_over(row: Any, now: dt.datetime) -> bool:
    """Whether a lease, or a time to wait, has ended, or is of a time when the clock was ahead."""
    return bool(row.lease_until <= now or row.claimed_at > statements.at(now)["ahead"])


async def advance(connection: AsyncConnection, key: WatermarkKey, consumer: str) -> None:
    """Move the edge below which a consumer has finished everything: what it asks for later starts there."""
    names = {"watermark": key.id, "consumer_": consumer}
    progress = (await connection.execute(claim_statements.SELECT_PROGRESS, names)).first()
    if progress is None:
        return
    # In this order: a batch that is committed between the two statements is above ``last_seq``, and stays so.
    asked = {"watermark": names["watermark"], "consumer": consumer, "done": progress.done_seq}
    first = (await connection.execute(claim_statements.SELECT_FIRST_UNFINISHED, asked)).scalar()
    done = progress.last_seq if first is None else min(first - 1, progress.last_seq)
    if done > progress.done_seq:
        await connection.execute(claim_statements.SET_DONE, names | {"done": done})


def _names(claim: Claim) -> dict[str, Any]:
    return {
        "watermark": claim.batch.key.id,
        "consumer_": claim.consumer,
        "seq_": claim.batch.seq,
        "holder_": claim.holder,
    }


def _as_read(row: Any, consumer: str) -> dict[str, Any]:
    return {
        "watermark": row.watermark_id,
        "consumer_": consumer,
        "seq_": row.seq,
        "holder_": row.holder,
        "attempt_": row.attempt,
    }


def _new_claim(row: Any, consumer: str, holder: str, now: dt.datetime, until: dt.datetime) -> dict[str, Any]:
    return {
        "watermark_id": row.watermark_id,
        "consumer": consumer,
        "seq": row.seq,
        "state": "claimed",
        "holder": holder,
        "attempt": 1,
        "claimed_at": now,
        "lease_until": until,
    }


def _lost(claim: Claim) -> LeaseLostError:
    msg = (
        f"batch {claim.batch.id} of {claim.batch.key} is not {claim.consumer}'s any more in attempt {claim.attempt}: "
        "the lease ran out and another worker took it, or it was finished or given back. Give consume() a longer lease"
    )
    return LeaseLostError(msg)
