"""Operations that are done once for a key: the answer is a row of the transaction that it answers for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.core.trouble import whatever_happens
from airflow_provider_incremental.stores.once import REMEMBERED_FOR
from airflow_provider_incremental.stores.sql import statements
from airflow_provider_incremental.stores.sql.database import Database

__all__ = ["Once"]

_PRUNE_EVERY = dt.timedelta(seconds=60)


class _DoneBeforeError(IncrementalError):
    """Somebody else was faster with the same key."""


class Once:
    """Remembers answers.

    :param now: the time that stamps what is written.
    """

    def __init__(self, *, database: Database, now: Callable[[], Awaitable[dt.datetime]]) -> None:
        self._database = database
        self._now = now
        self._pruned: dt.datetime | None = None

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """See :class:`stores.once.DoesOnce`."""
        now = await self._now()

        async def whole(connection: AsyncConnection) -> str:
            answer = await work()
            try:
                await connection.execute(statements.REMEMBER, {"id": key, "answer": answer, "answered_at": now})
            except sa.exc.IntegrityError as error:
                raise _DoneBeforeError(key) from error
            return answer

        try:
            answer = await self._database.together(whole)
        except IncrementalError:
            # It had no effect, or had it before: then the answer of that time is the true one.
            remembered = await self._recall(key)
            if remembered is None:
                raise
            return remembered
        await self._prune(now)
        return answer

    async def _recall(self, key: str) -> str | None:
        async def work(connection: AsyncConnection) -> Any:
            return (await connection.execute(statements.RECALL, {"key": key})).scalar()

        found = await self._database.read(work)
        return None if found is None else str(found)

    async def _prune(self, now: dt.datetime) -> None:
        if self._pruned is not None and now - self._pruned < _PRUNE_EVERY:
            return
        self._pruned = now
        old = {"before": now - dt.timedelta(seconds=REMEMBERED_FOR)}
        with whatever_happens():  # the next minute will do as well
            await self._database.statement(lambda each: each.execute(statements.FORGET_ANSWERS, old), repeatable=True)
