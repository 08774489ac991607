"""Rows of a table or a query above a cursor, in the cursor's order: keyset polling."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Collection, Sequence
from itertools import pairwise
from operator import eq
from typing import Any

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_checks import RowChecks
from airflow_provider_incremental.sources.sql_edge import UpperEdge, held
from airflow_provider_incremental.sources.sql_keyset import Statement, low_parameters
from airflow_provider_incremental.sources.sql_late import LateRows, window_start
from airflow_provider_incremental.sources.sql_plan import Plan, plan_of
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_visibility import Edge

__all__ = ["SqlRowSource"]

_PLAN_LASTS = 100  # polls
_PLAN_AGES = 300.0  # seconds
_CHUNK = 1000  # rows between two chances for everything else in the event loop


class SqlRowSource(Source):
    """What lies above a cursor in a table or a query.

    A cursor is a tuple of the cursor columns' values, as the driver returns them. A tuple with fewer values is a start:
    the first row that has these values, or greater ones, lies above it.

    The rows of a poll are read by one statement, so that it sees one state of the data. Where the first cursor column
    is a timestamp they end ``settle`` seconds before the database's own now. Before the first poll, and again every
    hundred polls or five minutes, the selection is checked: that the columns are there and may serve in a cursor, that
    the order is total, and that no row has NULL in a cursor column.

    With ``visibility="committed"`` a poll ends below whatever a transaction that is open can still add, so that no row
    that commits late is missed. Otherwise it is found while ``settle`` is longer than its transaction took; a number
    from a sequence has no such edge.

    Items are the driver's own values, exactly. What has no exact form in Python is written as text by the database:
    on PostgreSQL intervals, ranges, network addresses, bits, enumerations, composites, geometry and the like, and
    arrays of them. PostgreSQL's infinite dates come as the last or first of Python's; a year that Python does not know
    is an error. MySQL's and MariaDB's TIMESTAMP comes in UTC, without zone.

    :param reader: the database; it is closed with the source.
    :param conn_id: the name of the Airflow connection, for what is watched.
    :param selection: what :func:`check_sql_arguments` returned.
    :param clock: what short transactions are waited by; by default this machine's.
    """

    def __init__(self, *, reader: SqlReader, conn_id: str, selection: SqlSelection, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._reader = reader
        self._selection = selection
        self._conn_id = conn_id
        self._plan: Plan | None = None
        self._plan_serves = 0
        self._plan_since = 0.0
        self._edges: UpperEdge | None = None
        self._edge: Edge | None = None
        self._statements: dict[tuple[int, int], Statement] = {}
        self._checks = RowChecks(reader=reader, selection=selection)
        self._late = LateRows(reader=reader, selection=selection)
        self.lateness = selection.lateness

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
            await self._checks.check_number(plan, position)
            pieces = await self._late.begin(self.memory, position, seen)
            late = await self._late.unseen(plan, position, limit, seen) if self.lateness else []
            rows, more, note = await self._new(plan, position, limit - len(late))
            high = plan.cursor_of(rows[-1]) if rows else low
            rows = [*late, *rows] if late else rows
            more = more or len(late) == limit
            if not rows:
                return Found(high=low, more=more, note=note, remember=pieces)
            items = await self._items(plan, rows) if self._selection.payload == "rows" else ()
            marks = self._late.marks(plan, rows)
            return Found(
                high=high, items=items, count=len(rows), fingerprints=marks, more=more, note=note, remember=pieces
            )

    async def _new(
        self, plan: Plan, position: tuple[Any, ...], limit: int
    ) -> tuple[Sequence[Sequence[Any]], bool, str | None]:
        """Return the rows above a position, whether there are more, and what keeps others from being found."""
        if limit <= 0:
            return (), True, None
        cut_short = self._edge is not None
        rows = await self._above(plan, position, limit + 1)
        await self._check_order(plan, position, rows)
        if len(rows) <= limit:  # rows that had no value may be among them
            await self._checks.look_for_nulls(plan, counted=bool(rows) and self._checks.skipped is not None)
        note = await self._note(plan, position, found=bool(rows))
        if len(rows) > limit:
            plan.check_found(plan.cursor_of(rows[limit - 1]))
            return rows[:limit], True, note
        # While rows were read up to an edge from before, more may have come.
        self._edge = None
        return rows, cut_short, note

    async def latest(self) -> Baseline:
        """Return the cursor of the last row that a poll would deliver now."""
        async with self._checked_plan() as plan:
            rows = await self._last(plan)
            if not rows:
                return await self._baseline(plan, None)
            plan.check_found(rows[0])
            return await self._baseline(plan, tuple(rows[0]))

    async def _baseline(self, plan: Plan, position: tuple[Any, ...] | None) -> Baseline:
        """Return a baseline that names the rows of its window."""
        window = self._late.window(plan, position or ())
        marks = [mark async for rows in window for mark in self._late.marks(plan, rows)]
        return Baseline(cursor=position, fingerprints=marks, remember=self._late.forgotten(position or ()))

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether a batch that ended at ``high`` may hold rows that a poll from ``low`` reads again."""
        if not self.lateness or low is None or low == ():
            return False
        if not all(isinstance(each, tuple) and each for each in (high, low)):  # set by hand, not read as values yet
            return True
        start = window_start(low[0], self.lateness)
        try:
            return start is None or bool(high[0] >= start)
        except TypeError:  # of another column, before the watermark was let watch this one
            return True

    async def at(self, cursor: Cursor) -> Baseline:
        """Return the baseline for a start that a user gave: one value, or a list of them.

        With a value for every cursor column it is a position, and the row there counts as delivered; with fewer, the
        rows that have these values are still to be delivered.

        :raises SourceError: when a value cannot be read as one of its column.
        """
        async with self._checked_plan() as plan:
            return await self._baseline(plan, plan.parse_start(cursor))

    async def aclose(self) -> None:
        """Give the reader back."""
        await self._reader.aclose()

    @contextlib.asynccontextmanager
    async def _checked_plan(self) -> AsyncGenerator[Plan, None]:
        """Lend the plan; after an error, so many uses or minutes, the selection is looked at again first."""
        serves, self._plan_serves = self._plan_serves, 0
        now = self._clock.monotonic()
        if self._plan is None or serves <= 0 or now - self._plan_since >= _PLAN_AGES:
            self._edge = None
            self._plan, self._plan_since = await self._looked_at(self._plan), now
            serves = 1 if self._plan.shape.empty else _PLAN_LASTS
        yield self._plan
        self._plan_serves = serves - 1

    async def _looked_at(self, known: Plan | None) -> Plan:
        shape = await self._reader.describe(self._selection)
        if known is not None and known.shape == shape:
            plan = known
        else:
            plan = plan_of(self._selection, shape)
            await self._checks.check_clock(plan)
            self._statements = {}
            risks = 0 if self._edges is None else self._edges.risks
            self._edges = None
            if plan.edge_form is not None:
                self._edges = UpperEdge(reader=self._reader, plan=plan, clock=self._clock, risks=risks)
                await self._edges.check()
        await self._checks.look_for_nulls(plan, counted=True)
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
        values = await self._edge_values(position)
        if values is None:
            return ()
        form = len(position), limit
        statement = self._statements.get(form)
        if statement is None:
            statement = self._statements[form] = plan.keyset.above(*form, plan.edge_form)
        return await self._fetch(statement, low_parameters(position) | values)

    async def _edge_values(self, position: Sequence[Any]) -> dict[str, Any] | None:
        """Return the parameters of the upper edge, or None where there is nothing to read below it."""
        if self._edges is None:
            return {}
        # What a limit cut short is read on below the same edge: that costs no look.
        self._edge = self._edge or await self._edges.find(position)
        return None if self._edge is None else self._edges.parameters(self._edge)

    async def _last(self, plan: Plan) -> Sequence[Sequence[Any]]:
        """Return the cursor of the last row below the upper edge, if there is one."""
        if plan.shape.empty:
            return ()
        self._edge = None
        values = await self._edge_values(())
        if values is None and self._edge is not None:
            raise SourceError(f"{plan.where}: the start at the latest row is {held(self._edge)}")
        return () if values is None else await self._fetch(plan.keyset.latest(plan.edge_form), values)

    @property
    def _edges_note(self) -> str | None:
        return None if self._edges is None else self._edges.note

    async def _fetch(self, statement: Statement, own: dict[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(statement, {**self._selection.values_to_bind, **(own or {})})

    async def _check_order(self, plan: Plan, position: tuple[Any, ...], rows: Sequence[Any]) -> None:
        """Make sure that the rows are places in a total order above the position."""
        if not rows:
            return
        if plan.cursor_of(rows[0]) == position:
            raise SourceError(self._not_total(plan, position, again=True))
        plan.check_found(plan.cursor_of(rows[-1]))
        if plan.has_key:
            return
        cursors: list[tuple[Any, ...]] = []
        async for chunk in _chunks(rows):
            cursors.extend(map(plan.cursor_of, chunk))
        if any(map(eq, cursors, cursors[1:])):
            twice = next(before for before, after in pairwise(cursors) if before == after)
            raise SourceError(self._not_total(plan, twice, again=False))

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

    async def _note(self, plan: Plan, position: Sequence[Any], *, found: bool) -> str | None:
        """Return what keeps rows from being found, in one line."""
        nothing_above = self._edges is not None and self._edge is None
        waiting = await self._checks.note_on_waiting(plan, position, found=found, nothing_above=nothing_above)
        return "; ".join(filter(None, (self._edges_note, waiting, self._checks.skipped))) or None

    async def _items(self, plan: Plan, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        if len(rows) <= _CHUNK:
            return plan.items_of(rows)
        items: list[dict[str, Any]] = []
        async for chunk in _chunks(rows):
            items.extend(plan.items_of(chunk))
        return items


async def _chunks(rows: Sequence[Sequence[Any]]) -> AsyncGenerator[Sequence[Sequence[Any]], None]:
    """Yield the rows in parts that are short enough for everything else in the event loop."""
    for start in range(0, len(rows), _CHUNK):
        if start:
            await asyncio.sleep(0)
        yield rows[start : start + _CHUNK]
