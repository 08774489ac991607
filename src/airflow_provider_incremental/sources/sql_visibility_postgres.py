"""PostgreSQL's open transactions: its sessions' with the time of their start, and those that were prepared.

What decides, by PostgreSQL's own rules: ``now()`` is the start of the transaction, which ``pg_stat_activity`` shows
until after its rows can be seen; a statement takes its snapshot before it reads that view; a transaction that is
prepared shows in ``pg_prepared_xacts`` before its session is done with it, so the sessions are read first. The start of
a prepared one is not recorded. Only who has the privileges of ``pg_read_all_stats`` sees when others' transactions
began, and a standby shows none of the primary's.

One message of a client may hold several transactions, whose ``now()`` is the start of the message for all of them;
between two of them the session shows no transaction, and is active since then. A session with ``track_activities`` off
shows none ever, and is taken for one transaction since it began.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_clock import Expression, as_stamp
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import APPLICATION
from airflow_provider_incremental.sources.sql_visibility import Look, OpenTransaction

__all__ = ["OLDEST", "check", "facts", "look_above", "look_from", "next_number", "told"]

_SESSIONS = sa.table(
    "pg_stat_activity",
    *map(sa.column, ("pid", "backend_start", "xact_start", "query_start", "usename", "application_name", "state")),
    *map(sa.column, ("backend_type", "datname")),
    schema="pg_catalog",
).alias("session")
_PREPARED = sa.table(
    "pg_prepared_xacts", *map(sa.column, ("transaction", "gid", "prepared", "owner", "database")), schema="pg_catalog"
).alias("prepared")
_READING = ("autovacuum worker", "parallel worker")
_HIDDEN = "disabled"
_MARK, _OWN = 2, 5  # columns of a row before what is said of the server, and before those of a transaction


OLDEST = sa.text(
    """
SELECT CAST(x.number AS text), a.pid, CAST(a.usename AS text), a.application_name, a.state, a.xact_start,
    p.gid, CAST(p.owner AS text), p.prepared
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS number) AS x
LEFT JOIN pg_catalog.pg_locks AS l ON l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock'
    AND l.transactionid = CAST(x.number AS xid)
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
LEFT JOIN pg_catalog.pg_prepared_xacts AS p ON p.transaction = CAST(x.number AS xid)
LIMIT 1
"""
)
"""The query of the oldest transaction that may still add rows, and of its session as far as this user may see it."""


def next_number() -> Statement:
    """Return the query of the number that the next transaction gets."""
    return sa.select(sa.func.pg_snapshot_xmax(sa.func.pg_current_snapshot()))


def told(session: Sequence[Any]) -> str:
    """Return what people are told of a session: what a row of :data:`OLDEST` has after the number."""
    pid, owner, name, state, since, gid, preparer, prepared = session
    if gid is not None:
        return f", prepared as {gid!r} by {preparer} since {prepared.isoformat(sep=' ', timespec='seconds')}"
    if pid is None:
        return ""
    began = "" if since is None else f" since {since.isoformat(sep=' ', timespec='seconds')}"
    return f" of {owner} (pid {pid}, application {name!r}, {state}){began}"


def look_above(plan: Plan, given: int) -> Statement:
    """Return the query of the open transactions where a row lies above a position; it has no row where none does.

    Before what a look tells, its rows have the greatest cursor, or just a value where the cursor begins with a time.
    """
    above = plan.keyset.some(given) if plan.edge_form == "instant" else plan.keyset.top(given)
    # In this form PostgreSQL keeps the plan, and does not look at the transactions while there is no row.
    probe, look = above.subquery("probe"), _look_of(plan).offset(sa.literal_column("0")).lateral("look")
    return sa.select(*probe.c, *look.c).select_from(probe.join(look, sa.true()))


def _look_of(plan: Plan) -> sa.sql.Select[Any]:
    opened = sa.union_all(_sessions(plan), _prepared()).subquery("opened")
    now: Expression = sa.func.now()
    server = sa.select(
        now.label("clock"),
        (_stamp(plan, now) if plan.edge_form == "instant" else sa.null()).label("mark"),
        *_facts()[_MARK:],
    ).subquery("server")
    return sa.select(*server.c, *opened.c).select_from(server.outerjoin(opened, sa.true()))


def facts() -> Statement:
    """Return the query of whether this server and this user can tell."""
    return sa.select(*_facts())


def check(plan: Plan, rows: Sequence[Sequence[Any]]) -> None:
    """Refuse a server and a user that cannot tell the open transactions, by the row of :func:`facts` or of a look.

    :raises SourceError: saying what to grant, or to give instead.
    """
    standby, allowed, user = rows[0][_MARK:_OWN]
    if standby:
        msg = (
            f"{plan.where}: this server is a standby, which does not know the open transactions of its primary: a row "
            "that commits late would be missed. Connect to the primary; or give visibility='none' with a settle that "
            "is longer than any transaction and the standby's delay"
        )
        raise SourceError(msg)
    if not allowed:
        msg = (
            f"{plan.where}: the user {user} may not see when other sessions' transactions began, so that a row that "
            f"commits late could be missed. Grant it: GRANT pg_read_all_stats TO {user}; or give visibility='none'"
        )
        raise SourceError(msg)


def look_from(plan: Plan, rows: Sequence[Sequence[Any]]) -> Look:
    """Return what the rows of that query tell; the mark is the greatest cursor where it does not begin with a time.

    :raises SourceError: when this server or this user cannot tell the open transactions.
    """
    width = 1 if plan.edge_form == "instant" else len(plan.cursor)
    top, rows = rows[0][:width], [row[width:] for row in rows]
    check(plan, rows)
    now, mark = rows[0][:_MARK]
    opened = [_transaction(now, row[_OWN:]) for row in rows if row[_OWN + 1] is not None]
    return Look(now=now, mark=tuple(top) if plan.edge_form == "cursor" else mark, open=opened)


def _facts() -> list[Expression]:
    return [
        sa.null().label("clock"),
        sa.null().label("mark"),
        sa.func.pg_is_in_recovery().label("standby"),
        sa.func.pg_has_role(sa.literal_column("'pg_read_all_stats'"), sa.literal_column("'USAGE'")).label("allowed"),
        sa.func.current_user().label("whose"),
    ]


def _stamp(plan: Plan, instant: Expression) -> Expression:
    return as_stamp(instant, plan.cursor[0], plan.settle, plan.selection.timezone)


def _sessions(plan: Plan) -> Statement:
    session = _SESSIONS.c
    hidden = session.state == sa.literal_column(f"'{_HIDDEN}'")
    since: Expression = sa.func.coalesce(session.xact_start, session.query_start)
    since = sa.case((hidden, session.backend_start), else_=since)
    floor = _stamp(plan, since) if plan.edge_form == "instant" else sa.null()
    # Numbers are taken within a transaction: between two of them there is none that could come late.
    between = [session.state == sa.literal_column("'active'")] if plan.edge_form == "instant" else []
    silent = sa.and_(session.backend_type == sa.literal_column("'client backend'"), sa.or_(hidden, *between))
    return sa.select(
        session.pid,
        since.label("since"),
        sa.cast(session.usename, sa.Text).label("owner"),
        session.application_name.label("name"),
        session.state,
        floor.label("floor"),
    ).where(
        session.datname == sa.func.current_database(),
        sa.or_(session.xact_start.is_not(None), silent),
        session.pid != sa.func.pg_backend_pid(),
        *(session.backend_type != sa.literal_column(f"'{kind}'") for kind in _READING),
        session.application_name.is_distinct_from(sa.literal_column(f"'{APPLICATION}'")),
    )


def _prepared() -> Statement:
    prepared = _PREPARED.c
    return sa.select(
        sa.null().label("pid"),
        prepared.prepared.label("since"),
        sa.cast(prepared.owner, sa.Text).label("owner"),
        prepared.gid.label("name"),
        sa.cast(prepared.transaction, sa.Text).label("state"),
        sa.null().label("floor"),
    ).where(prepared.database == sa.func.current_database())


def _transaction(now: dt.datetime, row: Sequence[Any]) -> OpenTransaction:
    pid, since, owner, name, state, floor = row
    age = (now - since).total_seconds()
    if pid is None:
        who = f"the prepared transaction {name!r} of {owner}"
        return OpenTransaction(id=f"prepared {state} {name}", who=who, age=age, heir_of="")
    who = f"the transaction of {owner} (pid {pid}, application {name!r}, {state})"
    if state == _HIDDEN:
        who = f"the session of {owner} (pid {pid}, application {name!r}), whose track_activities is off"
    return OpenTransaction(id=f"{pid} {since.isoformat()}", who=who, age=age, floor=floor)
