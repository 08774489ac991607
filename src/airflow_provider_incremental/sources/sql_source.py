"""The SQL source as a trigger runs it: rows by keyset polling, woken by notifications, and the rows that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from dataclasses import replace
from typing import Protocol

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.sql_advice import advice
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_key_reader import KeyReader
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_recorded import Recorder
from airflow_provider_incremental.sources.sql_removal_arguments import RemovalArguments, parted
from airflow_provider_incremental.sources.sql_removals import Gone, Removals
from airflow_provider_incremental.sources.sql_rows import SqlRowSource

__all__ = ["Notifications", "SqlSource"]

_SOONEST = 0.25
_LATEST = 60.0
_RETRY = 60.0


class Notifications(Protocol):
    """News of one channel."""

    @property
    def trouble(self) -> str | None:
        """What keeps them from being heard at present, in one line."""

    async def open(self) -> None:
        """Begin to listen; again is harmless.

        :raises SourceError: when the database has no notifications.
        """

    async def news(self) -> None:
        """Wait until there may be something new since the last return."""

    async def aclose(self) -> None:
        """Listen no more."""


class SqlSource(SqlRowSource):
    """Rows above a cursor, and what goes with them.

    A notification wakes the source at once. The row that it was about may have to wait until its stamp is ``settle``
    seconds old, or another transaction has ended: so it wakes again after that time, and ever later up to a minute.

    Rows that are gone are looked for after each poll that has caught up, at most a tenth of the time. That they cannot
    be looked for, once it went well, keeps no row from being delivered: it is noted, and tried again.

    :param notifications: what wakes the source between two polls; closed with it.
    :param removals: how rows that are gone are found.
    """

    def __init__(
        self,
        *,
        reader: SqlReader,
        conn_id: str,
        selection: SqlSelection,
        notifications: Notifications | None = None,
        removals: RemovalArguments | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(reader=reader, conn_id=conn_id, selection=selection, clock=clock)
        self._settle = selection.settle
        self._notifications = notifications
        arguments = removals or RemovalArguments()
        self._deleted_column = arguments.deleted_column
        self._removals: Removals | None = None
        if arguments.primary_key is not None:
            keys = KeyReader(reader=reader, selection=selection, primary_key=arguments.primary_key)
            self._removals = Removals(keys=keys, clock=self._clock)
        self._recorder = Recorder()
        self._walked = False
        self._astray: str | None = None
        self._echoes: list[float] = []
        self._advised: Plan | None = None
        self._advice: str | None = None

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return the rows above ``low``.

        :raises SourceError: when the selection cannot be read as configured, or the cursor does not fit it.
        """
        if self._notifications is not None:
            await self._notifications.open()
        found = await super().poll(low, limit, seen)
        found = await self._recorded(self._without_deleted(found))
        if self._removals is not None:
            found = await self._with_removed(found, self._removals, limit)
        return replace(found, note=_joined(found.note, self._deafness, await self._advised_once()))

    def changed(self) -> Awaitable[None] | None:
        """Return what to wait for beside the next poll, when the source listens."""
        return None if self._notifications is None else self._wake(self._notifications)

    async def aclose(self) -> None:
        """Give back the reader, and listen no more."""
        if self._notifications is not None:
            await self._notifications.aclose()
        await super().aclose()

    def _without_deleted(self, found: Found) -> Found:
        if self._deleted_column is None or not found.items:
            return found
        there, deleted = parted(found.items, self._deleted_column, str(self._selection))
        return replace(found, items=there, count=len(there), removed=deleted)

    async def _recorded(self, found: Found) -> Found:
        if self._plan is None or not (found.size or found.removed):
            return found
        dialect, cursor = self._plan.shape.dialect, self._plan.cursor
        shape = await self._recorder.pieces(self.memory, dialect, cursor, parted=bool(found.removed))
        return replace(found, remember={**found.remember, **shape}) if shape else found

    async def _with_removed(self, found: Found, removals: Removals, limit: int) -> Found:
        gone = Gone()
        walks = removals.due and not found.more
        try:
            gone = await removals.follow(self.memory, found.items, limit=limit if walks else 0)
        except (SourceError, ConnectionError) as error:
            if not self._walked:
                raise
            removals.rest(_RETRY)
            self._astray = f"rows that are gone cannot be looked for, tried again each minute: {describe(error)}"
            gone = await removals.follow(self.memory, found.items, limit=0)
        else:
            self._walked = self._walked or walks
            self._astray = None if walks else self._astray
        remember = {**found.remember, **gone.remember}
        more, note = found.more or gone.more, _joined(found.note, self._astray)
        return replace(found, removed=gone.items, remember=remember, more=more, note=note)

    @property
    def _deafness(self) -> str | None:
        trouble = None if self._notifications is None else self._notifications.trouble
        return None if trouble is None else f"not listening, polls go on: {trouble}"

    async def _advised_once(self) -> str | None:
        plan = self._plan
        if plan is not None and plan is not self._advised:
            self._advised, self._advice = plan, await advice(self._reader, plan)
        return self._advice

    async def _wake(self, notifications: Notifications) -> None:
        told = asyncio.ensure_future(notifications.news())
        late = [asyncio.ensure_future(self._clock.sleep(self._until_echo()))] if self._echoes else []
        try:
            await asyncio.wait([told, *late], return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                told.result()
                self._echoes = self._after_news()
            else:
                self._echoes = self._echoes[1:]
        finally:
            for task in (told, *late):
                task.cancel()

    def _until_echo(self) -> float:
        return max(self._echoes[0] - self._clock.monotonic(), 0.0)

    def _after_news(self) -> list[float]:
        """Return when to look again for what the news were about: after the settle time, and then ever later."""
        now, delay = self._clock.monotonic(), max(self._settle, _SOONEST) * 1.05
        echoes = []
        while delay < _LATEST:
            echoes.append(now + delay)
            delay *= 2
        return echoes


def _joined(*notes: str | None) -> str | None:
    return "; ".join(filter(None, notes)) or None
