"""The check before the first poll: everything that would refuse, slow down or mislead the watching of a selection.

The first poll itself is made, for rows that nobody keeps: what it refuses is refused here, in the same words. Other
findings look closer. Nothing is written; and nothing reads a whole table but the count of NULLs, where a cursor column
may be NULL, and a poll that no index serves.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.sources.sql_advice import index_findings
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_clock import instant_before
from airflow_provider_incremental.sources.sql_columns import Column, Kind
from airflow_provider_incremental.sources.sql_edge import UpperEdge
from airflow_provider_incremental.sources.sql_findings import Finding, Preflight, fine, warning
from airflow_provider_incremental.sources.sql_first_poll import FirstPoll
from airflow_provider_incremental.sources.sql_keyset import columns_of
from airflow_provider_incremental.sources.sql_plan import Plan, plan_of
from airflow_provider_incremental.sources.sql_readers import Shape, SqlReader
from airflow_provider_incremental.sources.sql_refusals import refusals

__all__ = ["preflight"]

_SKEW = 5.0
_UNCHECKED = "could not be checked: "

Steps = AsyncGenerator[Finding, None]


async def preflight(
    reader: SqlReader, selection: SqlSelection, *, first_poll: FirstPoll | None = None, clock: Clock | None = None
) -> Preflight:
    """Look at a selection as its first poll would, and closer, and return everything that was found.

    What cannot be looked at is a finding too: this raises nothing of the database's.

    :param reader: the database; it is not closed.
    :param first_poll: what the trigger does beside; by default it reads rows from the earliest on.
    :param clock: this machine's, to compare the database's with.
    """
    try:
        shape = await reader.describe(selection)
        told = _of_shape(selection, shape)
        if all(finding.check != "columns" for finding in told):
            await _read_nothing(reader, selection, shape)
    except Exception as error:
        return Preflight((_refused("access", error),))
    findings = [fine("access", f"{selection} at {shape.place} can be read"), *told]
    if not Preflight(findings).ok:
        return Preflight(findings)
    plan = plan_of(selection, shape)
    for check, steps in _STEPS.items():
        try:
            findings += [finding async for finding in steps(reader, plan, clock or SystemClock())]
        except Exception as error:
            findings.append(warning(check, f"{_UNCHECKED}{describe(error)}"))
        if check == "visibility":
            findings += await _poll(reader, plan, first_poll or FirstPoll(), findings)
    if not Preflight(findings).ok:  # for the reason that is told
        findings = [finding for finding in findings if not finding.message.startswith(_UNCHECKED)]
    return Preflight(findings)


async def _read_nothing(reader: SqlReader, selection: SqlSelection, shape: Shape) -> None:
    """Read no row of the columns that a poll reads: to describe them may take less than SELECT."""
    names = selection.columns or tuple(column.name for column in shape.columns)
    read = replace(selection, columns=selection.cursor if selection.payload == "range" else names)
    await reader.fetch(columns_of(read, rows=False), selection.values_to_bind)


async def _poll(reader: SqlReader, plan: Plan, first_poll: FirstPoll, known: Sequence[Finding]) -> list[Finding]:
    """Make the first poll; what it is refused for is told once."""
    try:
        found = await first_poll.make(reader, plan)
    except Exception as error:
        refused = _refused("poll", error)
        told = any(finding.level == "error" and finding.message in refused.message for finding in known)
        return [] if told else [refused]
    rows = f"{found.size} row{'s' * (found.size > 1)}" if found.size else "no row yet"
    told_more = [f"a first poll finds {rows}", "there are more" * found.more, found.note]
    return [fine("poll", "; ".join(filter(None, told_more)))]


def _refused(check: str, error: Exception) -> Finding:
    return Finding(check=check, level="error", message=describe(error))


def _of_shape(selection: SqlSelection, shape: Shape) -> list[Finding]:
    refused = [Finding(check=each.about, level="error", message=each.message) for each in refusals(selection, shape)]
    about = {finding.check for finding in refused}
    if "columns" in about:
        return refused
    kinds = {column.name: column.kind.value if column.kind else "not known yet" for column in shape.columns}
    types = ", ".join(f"{name}: {kinds[name]}" for name in selection.cursor)
    names = ", ".join(selection.cursor)
    if shape.empty and any(kinds[name] == "not known yet" for name in selection.cursor):
        refused.append(warning("types", "there is no row yet, so that the types of the cursor columns are not known"))
    elif "types" not in about:
        refused.insert(0, fine("types", f"the cursor's columns have an order ({types})"))
    if shape.keys is None:
        msg = f"nobody checks that no two rows of a query agree in ({names}): it is your promise"
        refused.append(warning("uniqueness", msg))
    elif "uniqueness" not in about:
        refused.append(fine("uniqueness", f"no two rows agree in ({names})"))
    return refused


async def _nulls(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    if plan.keyset.nulls is None:
        yield fine("nulls", "no cursor column can be NULL")
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
        yield fine("nulls", "no row has NULL in a cursor column")
    else:
        yield warning("nulls", f"no row has NULL in ({names}), but a column there may be NULL; declare it NOT NULL")


async def _visibility(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    if plan.edge_form is None:
        if plan.cursor[0].kind is Kind.XID:
            yield fine("visibility", "rows that commit late are not missed: the cursor begins with their transaction")
        else:
            msg = (
                "no transactions are looked at: a row that commits late is missed, unless it has a stamp and settle is "
                "longer than its transaction takes"
            )
            yield warning("visibility", msg)
        return
    try:
        await UpperEdge(reader=reader, plan=plan, clock=SystemClock()).check()
    except SourceError as error:
        yield Finding(check="visibility", level="error", message=str(error))
    else:
        yield fine("visibility", "rows that commit late are waited for: the open transactions can be seen")


async def _index(reader: SqlReader, plan: Plan, _: Clock | None) -> Steps:
    for finding in await index_findings(reader, plan):
        yield finding


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
        yield warning("clock", msg)
    else:
        yield fine("clock", "the database's clock and this machine's agree")
    if plan.well_ahead is not None:
        rows = await reader.fetch(plan.keyset.ahead(plan.well_ahead), plan.selection.values_to_bind)
        if rows:
            name = plan.selection.cursor[0]
            msg = (
                f"the last row's {name} is {rows[0][0]}, over a minute ahead of the database's clock: rows wait until "
                f"that passes them. Is {name} written by a clock that is wrong or in another zone (timezone=...)?"
            )
            yield warning("stamps", msg)


def _instant(value: Any) -> dt.datetime:
    moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


_STEPS: dict[str, Callable[[SqlReader, Plan, Clock | None], Steps]] = {
    "nulls": _nulls,
    "visibility": _visibility,
    "index": _index,
    "clock": _clock,
}
