"""The first poll, made beforehand by the source itself: its statements and its checks, for rows that nobody keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.sql_key_reader import KeyReader
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_removal_arguments import RemovalArguments, parted
from airflow_provider_incremental.sources.sql_rows import SqlRowSource
from airflow_provider_incremental.sources.sql_source import Notifications

__all__ = ["FirstPoll"]

_LONGEST_SETTLE = 1.0  # seconds; short transactions are waited for as long


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPoll:
    """What a trigger does at its first poll, beside what its selection says.

    :param start: ``earliest``, ``latest``, or a value for each cursor column.
    :param limit: at most so many rows.
    :param removals: how rows that are gone are found.
    :param notifications: what is listened to; closed after the poll.
    """

    start: Any = "earliest"
    limit: int = 1000
    removals: RemovalArguments = field(default_factory=RemovalArguments)
    notifications: Notifications | None = None

    async def make(self, reader: SqlReader, plan: Plan) -> Found:
        """Return what was found.

        :raises SourceError: when the first poll would be refused, in its words.
        """
        if self.notifications is None:
            return await self._made(reader, plan)
        try:
            await self.notifications.open()
            return await self._made(reader, plan)
        finally:
            await self.notifications.aclose()

    async def _made(self, reader: SqlReader, plan: Plan) -> Found:
        selection = plan.selection
        soon = replace(selection, settle=min(selection.settle, _LONGEST_SETTLE))
        source = SqlRowSource(reader=reader, conn_id="preflight", selection=soon)
        found = await source.poll(await self._low(source), self.limit, frozenset())
        if plan.shape.empty:  # of which a poll reads nothing: the condition is to be right all the same
            await reader.fetch(plan.keyset.some(0, waiting=True), selection.values_to_bind)
        if self.removals.deleted_column is not None:
            nothing = dict.fromkeys(column.name for column in plan.delivered)
            parted(found.items or [nothing], self.removals.deleted_column, str(selection))
        if self.removals.primary_key is not None:
            keys = KeyReader(reader=reader, selection=selection, primary_key=self.removals.primary_key)
            await keys.open()
            await keys.page(None, None, 1)
        return found

    async def _low(self, source: SqlRowSource) -> Cursor:
        if self.start == "earliest":
            return None
        baseline = await (source.latest() if self.start == "latest" else source.at(self.start))
        return baseline.cursor
