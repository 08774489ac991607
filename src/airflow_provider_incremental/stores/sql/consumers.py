"""Consumers in the database: who processes the batches of a watermark, and from where in the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql import claim_statements, statements
from airflow_provider_incremental.stores.sql.codec import key_from
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.starting import start_on

__all__ = ["Consumers", "Subscription", "require_consumer", "require_holder"]

_LONGEST_NAME = 250
_LONGEST_HOLDER = 1000


@dataclass(frozen=True, slots=True)
class Subscription:
    """A watermark that a consumer is known on. Up to ``done_seq`` it has finished everything, or it is not for it."""

    key: WatermarkKey
    done_seq: int


class Consumers:
    """Making consumers known.

    :param now: the time that stamps what is written.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]]) -> None:
        self._database = database
        self._now = now
        self._insert = claim_statements.insert_consumer(database.dialect)

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str]
    ) -> list[WatermarkKey]:
        """See the protocol."""
        require_consumer(consumer)
        now = await self._now()
        asked = {"asset_hash_": statements.asset_hash(selector.asset_name), "consumer": consumer}

        async def read(connection: AsyncConnection) -> tuple[list[Any], dict[str, dt.datetime], dict[str, int]]:
            rows = (await connection.execute(statements.SELECT_NAMES_OF_ASSET, asked)).all()
            chosen = [row for row in rows if selector.matches(key_from(row))]
            subscribed = await connection.execute(claim_statements.SELECT_SUBSCRIPTIONS, asked)
            known = {row.id: row.first_seen_at for row in subscribed}
            return chosen, known, await _first_named(connection, named if start == "latest" else ())

        chosen, known, first_named = await self._database.read(read)
        met_at = min(known.values(), default=None)
        new = [
            _new_consumer(row, consumer, start_on(row.created_at, met_at, start), first_named, now)
            for row in chosen
            if row.id not in known
        ]
        met = [row.id for row in chosen if row.id in known]

        async def write(connection: AsyncConnection) -> None:
            if new:
                await connection.execute(self._insert, new)
            for part in statements.in_parts(met):
                touched = {"watermarks_": part, "consumer_": consumer, "now": now}
                await connection.execute(claim_statements.TOUCH_CONSUMERS, touched)

        if chosen:
            await self._database.write(write, repeatable=True)
        return sorted((key_from(row) for row in chosen), key=lambda key: (key.namespace, key.key))


async def _first_named(connection: AsyncConnection, ids: Collection[str]) -> dict[str, int]:
    """Return the number of the oldest named batch of each watermark."""
    first: dict[str, int] = {}
    for part in statements.in_parts(sorted(ids)):
        for row in await connection.execute(claim_statements.SELECT_NAMED_SEQS, {"ids": part}):
            first[row.watermark_id] = min(row.seq, first.get(row.watermark_id, row.seq))
    return first


def _new_consumer(
    row: Any, consumer: str, start: ConsumerStart, first_named: dict[str, int], now: dt.datetime
) -> dict[str, Any]:
    start_seq = min(row.last_seq, first_named.get(row.id, row.last_seq + 1) - 1) if start == "latest" else 0
    return {
        "watermark_id": row.id,
        "consumer": consumer,
        "start_seq": start_seq,
        "done_seq": start_seq,
        "first_seen_at": now,
        "last_seen_at": now,
    }


def require_consumer(consumer: str) -> None:
    """Refuse a consumer's name that a database would cut short or take for another one.

    :raises ConfigurationError: when it is empty, longer than 250 characters, or has blanks at an end.
    """
    _require("consumer", consumer, _LONGEST_NAME)


def require_holder(holder: str) -> None:
    """Refuse a holder's name that a database would cut short.

    :raises ConfigurationError: when it is empty, longer than 1000 characters, or has blanks at an end.
    """
    _require("holder", holder, _LONGEST_HOLDER)


def _require(name: str, value: str, longest: int) -> None:
    if not value or len(value) > longest or value != value.strip() or "\x00" in value:
        msg = f"{name}={value!r} cannot be kept; give 1 to {longest} characters without blanks at either end"
        raise ConfigurationError(msg)
