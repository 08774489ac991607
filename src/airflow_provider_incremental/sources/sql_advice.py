"""Whether an index serves the polls of a selection: by the catalogue, and by PostgreSQL's own plan."""

from __future__ import annotations

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_explain import explained
from airflow_provider_incremental.sources.sql_findings import Finding, fine, warning
from airflow_provider_incremental.sources.sql_indexes import index_ddl, indexes_of, served
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader

__all__ = ["MANY_ROWS", "advice", "index_findings"]

MANY_ROWS = 10_000
"""From so many rows on, a poll that no index serves is worth a word."""

_LIMIT = 1001


async def advice(reader: SqlReader, plan: Plan) -> str | None:
    """Return one line for the status of a watermark whose polls no index serves, though its table is large."""
    try:
        if plan.shape.empty or not await _many_rows(reader, plan):
            return None
        found = await index_findings(reader, plan)
    except SourceError:  # whatever keeps the catalogue from being read keeps no row from being read
        return None
    return next((finding.message for finding in found if finding.level != "ok"), None)


async def index_findings(reader: SqlReader, plan: Plan) -> list[Finding]:
    """Say by the catalogue, and where PostgreSQL's own plan for a large table says better, by that.

    :raises SourceError: when either cannot be read.
    """
    listed = await _by_catalogue(reader, plan)
    planned = None
    if plan.shape.dialect == "postgresql" and await _many_rows(reader, plan):
        planned = await _by_plan(reader, plan)
    if planned is None:
        return [listed]
    overruled = planned.level == "ok" and listed.level != "ok"
    return [planned] if overruled else [listed, planned]


async def _by_catalogue(reader: SqlReader, plan: Plan) -> Finding:
    selection, dialect = plan.selection, plan.shape.dialect
    indexes = await indexes_of(reader, dialect, selection)
    names = ", ".join(selection.cursor)
    if indexes is None:
        msg = f"polls read {selection} in the order of ({names}): see that an index of what it reads serves that"
        return warning("index", msg)
    ddl = index_ddl(dialect, selection)
    best = max(indexes, key=lambda index: served(index, selection.cursor), default=None)
    reached = 0 if best is None else served(best, selection.cursor)
    if best is not None and reached == len(selection.cursor):
        return fine("index", f"index {best.name} serves polls in the order of ({names})")
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
        return fine("plan", f"PostgreSQL reads only what is new ({how})")
    does = [f"reads all of {name}" for name in told.scanned] + (["sorts what it has read"] if told.sorts else [])
    remedy = "give the tables an index on the columns that the cursor comes from, and ANALYZE them"
    return warning("plan", f"at each poll PostgreSQL {' and '.join(does)} ({how}); {remedy}")


async def _many_rows(reader: SqlReader, plan: Plan) -> bool:
    ((count,),) = await reader.fetch(plan.keyset.count(MANY_ROWS), plan.selection.values_to_bind)
    return bool(count >= MANY_ROWS)
