"""The journal in the database: who changed what by hand, and why, in the transaction of the change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.upkeep import Act, JournalEntry
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.codec import key_from, text_or_none
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.tables import journal

__all__ = ["Journal"]

_j = journal.c
_INSERT = sa.insert(journal)
_NEWEST = sa.select(journal).order_by(_j.id.desc()).limit(sa.bindparam("most", type_=sa.Integer()))
_NEWEST_OF_ONE = _NEWEST.where(_j.watermark_id == sa.bindparam("watermark"))


class Journal:
    """What people changed.

    :param now: the time that stamps what is written.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]]) -> None:
        self._database = database
        self._now = now

    async def write(
        self,
        connection: AsyncConnection,
        key: WatermarkKey,
        at: dt.datetime,
        operation: str,
        detail: str,
        *,
        act: Act | None,
    ) -> None:
        """Record an act, if there is one, in the transaction of the caller."""
        if act is None:
            return
        entry = {
            "watermark_id": key.id,
            "asset_name": key.asset_name,
            "namespace": key.namespace,
            "key": key.key,
            "at": at,
            "operation": operation,
            "detail": text_or_none(detail),
            "who": text_or_none(act.who),
            "why": text_or_none(act.why),
        }
        await connection.execute(_INSERT, entry)

    async def read(self, key: WatermarkKey | None, limit: int) -> list[JournalEntry]:
        """See :meth:`core.store.WatermarkStore.journal`."""
        statement = _NEWEST if key is None else _NEWEST_OF_ONE
        asked: dict[str, Any] = {"most": limit} | ({} if key is None else {"watermark": key.id})

        async def work(connection: AsyncConnection) -> list[Any]:
            return list(await connection.execute(statement, asked))

        return [
            JournalEntry(
                at=row.at, key=key_from(row), operation=row.operation, detail=row.detail, who=row.who, why=row.why
            )
            for row in await self._database.read(work)
        ]
