"""Rows of a table or a query above a cursor, in the cursor's order: keyset polling."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Collection, Sequence
from itertools import pairwise, repeat
from operator import eq
from typing import Any

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_keyset import Statement, low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan, plan_of
from airflow_provider_incremental.sources.sql_readers import SqlReader

__all__ = ["SqlRowSource"]

_PLAN_LASTS = 100  # polls
_CHUNK = 1000  # rows between two chances for everything else in the event loop
_RARELY = 64  # polls


class SqlRowSource(Source):
    """What lies above a cursor in a table or a query.

    A cursor is a tuple of the cursor columns' values, as the driver returns them. A tuple with fewer values is a start:
    the first row that has these values, or greater ones, lies above it.

    A poll is one statement, so that it sees one state of the data. Where the first cursor column is a timestamp the
    poll ends ``settle`` seconds before the database's own now. Before the first poll, and again every hundred polls,
    the selection is checked: that the columns are there and may serve in a cursor, that the order is total, and that
    no row has NULL in a cursor column.

    A row that commits after a poll with a stamp from before it is found while ``settle`` is longer than its transaction
    took; a number from a sequence has no such edge.

    Items are the driver's own values, exactly. What has no exact form in Python is written as text by the database:
    on PostgreSQL intervals, ranges, network addresses, bits, enumerations, composites, geometry and the like, and
    arrays of them. PostgreSQL's infinite dates come as the last or first of Python's; a year that Python does not know
    is an error. MySQL's and MariaDB's TIMESTAMP comes in UTC, without zone.

    :param reader: the database; it is closed with the source.
    :param conn_id: the name of the Airflow connection, for what is watched.
    :param selection: what :func:`check_sql_arguments` returned.
    """

    def __init__(self, *, reader: SqlReader, conn_id: str, selection: SqlSelection) -> None:
        self._reader = reader
        self._selection = selection
        self._conn_id = conn_id
        self._plan: Plan | None = None
        self._plan_serves = 0
        self._statements: dict[tuple[int, int], Statement] = {}
        self._idle = 0
        self._note: str | None = None

    @property
    def watches(self) -> Watches:
        """The connection with the table or a hash of the query, and the names of the cursor columns."""
        names = self._selection.cursor
        odd = any("," in name or name.strip() != name or name.startswith("[") for name in names)
        cursor = json.dumps(list(names)) if odd else ",".join(names)
        return Watches(source=f"sql://{self._conn_id}/{self._selection.name}", cursor=cursor)

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return the rows above ``low``, each as a dictionary by column; with ``payload="range"`` only their count.

        :raises SourceError: when the selection cannot be read as configured, or the cursor does not fit it.
        """
        async with self._checked_plan() as plan:
            position = self._position(plan, low)
            rows = await self._above(plan, position, limit + 1)
            cursors = await self._cursors(plan, position, rows)
            more = len(rows) > limit
            if not more:
                await self._refuse_nulls(plan)
            self._note = await self._held_back(plan, found=bool(rows))
            if not rows:
                return Found(high=low, note=self._note)
            items = await self._items(plan, rows[:limit]) if self._selection.payload == "rows" else ()
            count = min(len(rows), limit)
            return Found(high=cursors[count - 1], items=items, count=count, more=more, note=self._note)

    async def latest(self) -> Baseline:
        """Return the cursor of the last row that a poll would deliver now."""
        async with self._checked_plan() as plan:
            rows = () if plan.shape.empty else await self._fetch(plan.keyset.latest())
            if not rows:
                return Baseline(cursor=None)
            plan.check_found(rows[0])
            return Baseline(cursor=tuple(rows[0]))

    async def at(self, cursor: Cursor) -> Baseline:
        """Return the baseline for a start that a user gave: one value, or a list of them.

        With a value for every cursor column it is a position, and the row there counts as delivered; with fewer, the
        rows that have these values are still to be delivered.

        :raises SourceError: when a value cannot be read as one of its column.
        """
        async with self._checked_plan() as plan:
            return Baseline(cursor=plan.parse_start(cursor))

    async def aclose(self) -> None:
        """Give the reader back."""
        await self._reader.aclose()

    @contextlib.asynccontextmanager
    async def _checked_plan(self) -> AsyncGenerator[Plan, None]:
        """Lend the plan; after an error, and after so many uses, the selection is looked at again first."""
        serves, self._plan_serves = self._plan_serves, 0
        if self._plan is None or serves <= 0:
            self._plan = await self._looked_at(self._plan)
            serves = 1 if self._plan.shape.empty else _PLAN_LASTS
        yield self._plan
        self._plan_serves = serves - 1

    async def _looked_at(self, known: Plan | None) -> Plan:
        shape = await self._reader.describe(self._selection)
        if known is not None and known.shape == shape:
            plan = known
        else:
            plan = plan_of(self._selection, shape)
            await self._check_clock(plan)
            self._statements = {}
        await self._refuse_nulls(plan)
        return plan

    def _position(self, plan: Plan, low: Cursor) -> tuple[Any, ...]:
        if low is None:
            return ()
        if not isinstance(low, tuple):  # set by hand: what this source finds is always a tuple
            return plan.parse_start(low)
        if plan.shape.empty:
            return low
        plan.check_cursor(low)
        return low

    async def _above(self, plan: Plan, position: Sequence[Any], limit: int) -> Sequence[Sequence[Any]]:
        if plan.shape.empty:
            return ()
        form = len(position), limit
        statement = self._statements.get(form)
        if statement is None:
            statement = self._statements[form] = plan.keyset.above(*form)
        return await self._fetch(statement, low_parameters(position))

    async def _fetch(self, statement: Statement, low: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(statement, {**self._selection.parameters, **(low or {})})

    async def _cursors(self, plan: Plan, position: tuple[Any, ...], rows: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the cursor of each row, sure that it is a place in a total order above the position."""
        cursors = [cursor async for chunk in _chunks(rows) for cursor in map(plan.cursor_of, chunk)]
        if cursors and cursors[0] == position:
            raise SourceError(self._not_total(plan, position, again=True))
        if any(map(eq, cursors, cursors[1:])):
            twice = next(before for before, after in pairwise(cursors) if before == after)
            raise SourceError(self._not_total(plan, twice, again=False))
        if cursors:
            plan.check_found(cursors[-1])
        return cursors

    def _not_total(self, plan: Plan, cursor: tuple[Any, ...], *, again: bool) -> str:
        names = ", ".join(self._selection.cursor)
        if again:
            return (
                f"{plan.where}: the row at the cursor ({names}) = {cursor!r} came again: another row has the same "
                "values, or the driver does not keep all digits of them. End the cursor with a column whose values "
                "never repeat, or watch a query that casts it to a type that the driver keeps"
            )
        return (
            f"{plan.where}: two rows have the same cursor ({names}) = {cursor!r}, so that a limit between them would "
            "lose one; end the cursor with a column whose values never repeat"
        )

    async def _items(self, plan: Plan, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        names = [column.name for column in plan.delivered]
        items: list[dict[str, Any]] = []
        async for chunk in _chunks(rows):
            items.extend(map(dict, map(zip, repeat(names), chunk)))
        return items

    async def _refuse_nulls(self, plan: Plan) -> None:
        """A row without a place in the order would never be found: say so instead."""
        statement = plan.keyset.nulls
        if statement is None or not await self._fetch(statement):
            return
        ((count,),) = await self._fetch(plan.keyset.count_nulls())
        names = ", ".join(column.name for column in plan.cursor if column.nullable)
        msg = (
            f"{plan.where}: {count} rows have NULL in a cursor column ({names}), and so no place in the order. Fill "
            f"them and declare the column NOT NULL, or leave them out with sql='SELECT ... WHERE ... IS NOT NULL'"
        )
        raise SourceError(msg)

    async def _check_clock(self, plan: Plan) -> None:
        if plan.until is None:
            return
        ((until,),) = await self._fetch(plan.keyset.clock())
        if until is None:
            msg = (
                f"{plan.where}: timezone={self._selection.timezone!r} is not known to the server; load its zones "
                "(mysql_tzinfo_to_sql), or give an offset that it knows"
            )
            raise SourceError(msg)

    async def _held_back(self, plan: Plan, *, found: bool) -> str | None:
        """Return a note on rows that are stamped with a time to come; looked for when nothing was found, and rarely."""
        self._idle = 0 if found else self._idle + 1
        if found or plan.well_ahead is None:
            return None
        if self._idle & (self._idle - 1) and self._idle % _RARELY:
            return self._note
        rows = await self._fetch(plan.keyset.ahead(plan.well_ahead))
        if not rows:
            return None
        name = self._selection.cursor[0]
        return (
            f"held back: the last row's {name} is {rows[0][0]}, over a minute ahead of the database's clock; rows wait "
            f"until that passes them. Is {name} written by a clock that is wrong or in another zone (timezone=...)?"
        )


async def _chunks(rows: Sequence[Sequence[Any]]) -> AsyncGenerator[Sequence[Sequence[Any]], None]:
    """Yield the rows in parts that are short enough for everything else in the event loop."""
    for start in range(0, len(rows), _CHUNK):
        if start:
            await asyncio.sleep(0)
        yield rows[start : start + _CHUNK]
