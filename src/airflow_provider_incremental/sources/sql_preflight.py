"""The check before the first poll: everything that would refuse, slow down or mislead the watching of a selection.

Each finding says what is so, and what to do about it. Nothing is written, and nothing here reads a whole table but the
count of NULLs, and that only where a cursor column may be NULL.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_clock import instant_before
from airflow_provider_incremental.sources.sql_columns import Column, Kind
from airflow_provider_incremental.sources.sql_edge import UpperEdge
from airflow_provider_incremental.sources.sql_explain import explained
from airflow_provider_incremental.sources.sql_indexes import index_ddl, indexes_of, served
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan, plan_of
from airflow_provider_incremental.sources.sql_readers import Shape, SqlReader
from airflow_provider_incremental.sources.sql_refusals import refusals

__all__ = ["MANY_ROWS", "Finding", "Preflight", "advice", "preflight"]

MANY_ROWS = 10_000
"""From so many rows on, a poll that no index serves is worth a word."""

_SKEW = 5.0
_LIMIT = 1001

Level = Literal["ok", "warning", "error"]
Steps = AsyncGenerator["Finding", None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    :param check: what was looked at, in a word.
    :param level: ``error``: no poll would be made. ``warning``: polls are made; something is slow or may mislead.
    :param message: what is so, and for a warning or an error what to do.
    :param ddl: a statement that mends it, where one does.
    """

    check: str
    level: Level
    message: str
    ddl: str | None = None


@dataclass(frozen=True, slots=True)
class Preflight:
    """All findings, in the order in which they were made."""

    findings: Sequence[Finding] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        """Whether the selection can be polled; there may be warnings."""
        return all(finding.level != "error" for finding in self.findings)

    @property
    def ddl(self) -> list[str]:
        """The statements that mend what was found, each once."""
        return list(dict.fromkeys(finding.ddl for finding in self.findings if finding.ddl is not None))


async def preflight(reader: SqlReader, selection: SqlSelection, *, clock: Clock | None = None) -> Preflight:
    """Look at a selection as its first poll would, and closer, and return everything that was found.

    What cannot be looked at is a finding too: this raises nothing of the database's.

    :param reader: the database; it is not closed.
    :param clock: this machine's, to compare the database's with.
    """
    findings: list[Finding] = []
    try:
        shape = await reader.describe(selection)
    except Exception as error:
        return Preflight((Finding(check="access", level="error", message=describe(error)),))
    findings.append(_ok("access", f"{selection} at {shape.place} can be read"))
    findings += _of_shape(selection, shape)
    if not Preflight(findings).ok:
        return Preflight(findings)
    plan = plan_of(selection, shape)
    for check, steps in _STEPS.items():
        try:
            findings += [finding async for finding in steps(reader, plan, clock or SystemClock())]
        except Exception as error:
            findings.append(Finding(check=check, level="warning", message=f"could not be checked: {describe(error)}"))
    return Preflight(findings)


async def advice(reader: SqlReader, plan: Plan) -> str | None:
    """Return one line for the status of a watermark whose polls no index serves, though its table is large."""
    try:
        if plan.shape.empty or not await _many_rows(reader, plan):
            return None
        found = [finding async for finding in _index(reader, plan, None)]
    except SourceError:  # whatever keeps the catalogue from being read keeps no row from being read
        return None
    return next((finding.message for finding in found if finding.level != "ok"), None)


def _of_shape(selection: SqlSelection, shape: Shape) -> list[Finding]:
    refused = [Finding(check=each.about, level="error", message=each.message) for each in refusals(selection, shape)]
    about = {finding.check for finding in refused}
    if "columns" in about:
        return refused
    kinds = {column.name: column.kind.value if column.kind else "not known yet" for column in shape.columns}
    types = ", ".join(f"{name}: {kinds[name]}" for name in selection.cursor)
    names = ", ".join(selection.cursor)
    if shape.empty and any(kinds[name] == "not known yet" for name in selection.cursor):
        refused.append(_warning("types", "there is no row yet, so that the types of the cursor columns are not known"))
    elif "types" not in about:
        refused.insert(0, _ok("types", f"the cursor's columns have an order ({types})"))
    if shape.keys is None:
        msg = f"nobody checks that no two rows of a query agree in ({names}): it is your promise"
        refused.append(_warning("uniqueness", msg))
    elif "uniqueness" not in about:
        refused.append(_ok("uniqueness", f"no two rows agree in ({names})"))
    return refused


async def _nulls(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    if plan.keyset.nulls is None:
        yield _ok("nulls", "no cursor column can be NULL")
        return
    (counts,) = await reader.fetch(plan.keyset.count_nulls(), plan.selection.values_to_bind)
    count, found = plan.keyset.nulls_of(counts)
    names = ", ".join(column.name for column in plan.cursor if column.nullable)
    if count:
        msg = (
            f"{count} rows have NULL in a cursor column ({found}), and so no place in the order. Fill them and declare "
            "the column NOT NULL, or leave them out with null_cursor='skip'"
        )
        skipped = plan.selection.null_cursor == "skip"
        yield Finding(check="nulls", level="warning" if skipped else "error", message=msg)
    elif plan.shape.keys is None or not names:
        yield _ok("nulls", "no row has NULL in a cursor column")
    else:
        yield _warning("nulls", f"no row has NULL in ({names}), but a column there may be NULL; declare it NOT NULL")


async def _index(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    """By the catalogue; where PostgreSQL's own plan for a large table says better, by that."""
    listed = await _by_catalogue(reader, plan)
    planned = None
    if plan.shape.dialect == "postgresql" and await _many_rows(reader, plan):
        planned = await _by_plan(reader, plan)
    if planned is None or planned.level != "ok" or listed.level == "ok":
        yield listed
    if planned is not None:
        yield planned


async def _by_catalogue(reader: SqlReader, plan: Plan) -> Finding:
    selection, dialect = plan.selection, plan.shape.dialect
    indexes = await indexes_of(reader, dialect, selection)
    names = ", ".join(selection.cursor)
    if indexes is None:
        msg = f"polls read {selection} in the order of ({names}): see that an index of what it reads serves that"
        return _warning("index", msg)
    ddl = index_ddl(dialect, selection)
    best = max(indexes, key=lambda index: served(index, selection.cursor), default=None)
    reached = 0 if best is None else served(best, selection.cursor)
    if best is not None and reached == len(selection.cursor):
        return _ok("index", f"index {best.name} serves polls in the order of ({names})")
    msg = f"no index gives the rows of {selection} in the order of ({names}): each poll reads and sorts the whole table"
    if best is not None and reached:
        first = ", ".join(selection.cursor[:reached])
        msg = f"index {best.name} gives the order of ({first}) only: rows that agree in it are sorted at each poll"
    return Finding(check="index", level="warning", message=f"{msg}. Make one: {ddl}", ddl=ddl)


async def _by_plan(reader: SqlReader, plan: Plan) -> Finding:
    """What PostgreSQL itself says of a poll at the end of the table. A small table it reads as a whole anyway."""
    rows = await reader.fetch(plan.keyset.latest(), plan.selection.values_to_bind)
    low = tuple(rows[0]) if rows else ()
    parameters = {**plan.selection.values_to_bind, **low_parameters(low)}
    told = await explained(reader, plan.keyset.above(len(low), _LIMIT), parameters)
    how = f"indexes: {', '.join(told.indexes) or 'none'}"
    if not told.scanned and not told.sorts:
        return _ok("plan", f"PostgreSQL reads only what is new ({how})")
    does = [f"reads all of {name}" for name in told.scanned] + (["sorts what it has read"] if told.sorts else [])
    remedy = "give the tables an index on the columns that the cursor comes from, and ANALYZE them"
    return _warning("plan", f"at each poll PostgreSQL {' and '.join(does)} ({how}); {remedy}")


async def _visibility(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    if plan.edge_form is None:
        if plan.cursor[0].kind is Kind.XID:
            yield _ok("visibility", "rows that commit late are not missed: the cursor begins with their transaction")
        else:
            msg = (
                "no transactions are looked at: a row that commits late is missed, unless it has a stamp and settle is "
                "longer than its transaction takes"
            )
            yield _warning("visibility", msg)
        return
    try:
        await UpperEdge(reader=reader, plan=plan, clock=SystemClock()).check()
    except SourceError as error:
        yield Finding(check="visibility", level="error", message=str(error))
    else:
        yield _ok("visibility", "rows that commit late are waited for: the open transactions can be seen")


async def _clock(reader: SqlReader, plan: Plan, clock: Clock | None) -> Steps:
    dialect = plan.shape.dialect
    now = instant_before(dialect, Column(name="now", kind=Kind.INSTANT), 0.0, None)
    if clock is None or now is None:
        return
    before = clock.now()
    ((theirs,),) = await reader.fetch(sa.select(now), {})
    here = before + (clock.now() - before) / 2
    skew = (here - _instant(theirs)).total_seconds()
    if abs(skew) > _SKEW:
        which = "ahead of" if skew > 0 else "behind"
        msg = (
            f"this machine's clock is {abs(skew):.0f} s {which} the database's. Polls go by the database's clock and "
            "lose nothing by that; but where a host with such a clock stamps rows, they come late or wait: synchronise "
            "the clocks, or stamp rows in the database"
        )
        yield _warning("clock", msg)
    else:
        yield _ok("clock", "the database's clock and this machine's agree")
    if plan.well_ahead is not None:
        rows = await reader.fetch(plan.keyset.ahead(plan.well_ahead), plan.selection.values_to_bind)
        if rows:
            name = plan.selection.cursor[0]
            msg = (
                f"the last row's {name} is {rows[0][0]}, over a minute ahead of the database's clock: rows wait until "
                f"that passes them. Is {name} written by a clock that is wrong or in another zone (timezone=...)?"
            )
            yield _warning("stamps", msg)


async def _many_rows(reader: SqlReader, plan: Plan) -> bool:
    ((count,),) = await reader.fetch(plan.keyset.count(MANY_ROWS), plan.selection.values_to_bind)
    return bool(count >= MANY_ROWS)


def _instant(value: Any) -> dt.datetime:
    moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


def _ok(check: str, message: str) -> Finding:
    return Finding(check=check, level="ok", message=message)


def _warning(check: str, message: str) -> Finding:
    return Finding(check=check, level="warning", message=message)


_STEPS: dict[str, Callable[[SqlReader, Plan, Clock | None], Steps]] = {
    "nulls": _nulls,
    "visibility": _visibility,
    "index": _index,
    "clock": _clock,
}
