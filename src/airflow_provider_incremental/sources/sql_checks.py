"""Rows that a poll does not reach, now or ever: refused, or told in a note, with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources import sql_visibility_postgres as postgres
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import Kind
from airflow_provider_incremental.sources.sql_keyset import Statement, low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader

__all__ = ["RowChecks"]

_RARELY = 64  # polls
_ZONES_OF_ONE = ("user", "database user", "client", "session")
"""Where PostgreSQL says that a setting comes from, when other sessions have another one."""


class RowChecks:
    """What is asked of a selection beside its rows.

    :param reader: the database.
    :param selection: what is watched.
    """

    def __init__(self, *, reader: SqlReader, selection: SqlSelection) -> None:
        self._reader = reader
        self._selection = selection
        self.skipped: str | None = None
        self._idle = 0
        self._note: str | None = None
        self._numbered: Plan | None = None

    async def look_for_nulls(self, plan: Plan, *, counted: bool = False) -> None:
        """Refuse rows without a place in the order, which would never be found; or count them, where they are skipped.

        :param counted: whether skipped rows are counted again; else only whether there are any yet that were counted.
        """
        statement, skipped = plan.keyset.nulls, self._selection.null_cursor == "skip"
        if statement is None:
            self.skipped = None
            return
        if skipped and not counted and self.skipped is None:
            return
        if not await self._fetch(statement):
            self.skipped = None
            return
        if skipped and not counted:
            return
        (counts,) = await self._fetch(plan.keyset.count_nulls())
        count, names = plan.keyset.nulls_of(counts)
        if skipped:
            self.skipped = f"skipped: {count} rows have NULL in a cursor column ({names}); they come with a value"
            return
        msg = (
            f"{plan.where}: {count} rows have NULL in a cursor column ({names}), and so no place in the order. Fill "
            "them and declare the column NOT NULL, or leave them out with null_cursor='skip'"
        )
        raise SourceError(msg)

    async def check_clock(self, plan: Plan) -> None:
        """Refuse a zone that the server does not know, and one that is this session's alone."""
        if plan.clock is None:
            return
        if plan.shape.dialect == "postgresql" and plan.cursor[0].kind is Kind.TIMESTAMP and not plan.selection.timezone:
            await self._check_session_zone(plan)
        ((until,),) = await self._fetch(sa.select(plan.clock))
        if until is None:
            msg = (
                f"{plan.where}: timezone={self._selection.timezone!r} is not known to the server; load its zones "
                "(mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql mysql). Only 'UTC' and offsets that never change, as "
                "'Etc/GMT-5' for five hours ahead of UTC, need none"
            )
            raise SourceError(msg)

    async def _check_session_zone(self, plan: Plan) -> None:
        zone = sa.table("pg_settings", *map(sa.column, ("name", "setting", "source")), schema="pg_catalog").c
        found = await self._fetch(sa.select(zone.setting, zone.source).where(zone.name == sa.literal("TimeZone")))
        setting, source = found[0]
        if source in _ZONES_OF_ONE:
            msg = (
                f"{plan.where}: {plan.cursor[0].name} has no zone, and the watching user's session has one of its own "
                f"({setting}, set for the {source}), which need not be that of who writes; say with timezone=... in "
                "which zone it is written"
            )
            raise SourceError(msg)

    async def check_number(self, plan: Plan, position: Sequence[Any]) -> None:
        """Refuse a position behind the numbers of a server's transactions, once for each plan.

        A table that was copied to another server keeps its numbers, and new rows there begin below them.
        """
        if self._numbered is plan or not position or plan.cursor[0].kind is not Kind.XID:
            return
        ((number,),) = await self._fetch(postgres.next_number())
        if position[0] >= number:
            msg = (
                f"{plan.where}: the watermark's {plan.cursor[0].name} is {position[0]}, but the server's next "
                f"transaction is {number}: that one is still to come, and new rows would lie below the watermark. The "
                "table was moved from another server, or restored: number its rows anew, and start over with "
                "`airflow-incremental rewind`"
            )
            raise SourceError(msg)
        self._numbered = plan

    async def note_on_waiting(
        self, plan: Plan, position: Sequence[Any], *, found: bool, nothing_above: bool
    ) -> str | None:
        """Return a note on rows that wait above the edge; looked for when nothing was found, and rarely."""
        self._idle = 0 if found else self._idle + 1
        if found or nothing_above:
            self._note = None
        if found or (self._idle & (self._idle - 1) and self._idle % _RARELY):
            return self._note
        if not nothing_above:
            self._note = await self._numbers(plan, position) or await self._ahead(plan)
        await self.look_for_nulls(plan, counted=True)
        return self._note

    async def _ahead(self, plan: Plan) -> str | None:
        if plan.well_ahead is None:
            return None
        rows = await self._fetch(plan.keyset.ahead(plan.well_ahead))
        if not rows:
            return None
        name = self._selection.cursor[0]
        return (
            f"held back: the last row's {name} is {rows[0][0]}, over a minute ahead of the database's clock; rows wait "
            f"until that passes them. Is {name} written by a clock that is wrong or in another zone (timezone=...)?"
        )

    async def _numbers(self, plan: Plan, position: Sequence[Any]) -> str | None:
        if plan.until is None or plan.cursor[0].kind is not Kind.XID:
            return None
        if not await self._fetch(plan.keyset.some(len(position), waiting=True), low_parameters(position)):
            return None
        (((number, *session),),) = await self._reader.fetch_in_turn(postgres.OLDEST)
        return f"held back by transaction {number}{postgres.told(session)}: rows wait until it ends"

    async def _fetch(self, statement: Statement, own: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(statement, {**self._selection.values_to_bind, **(own or {})})
