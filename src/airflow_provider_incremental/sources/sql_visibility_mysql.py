"""MySQL's and MariaDB's open transactions, and the statements that run before they are one.

What decides, as the servers do it: ``NOW()`` is the start of the statement, and an AUTO_INCREMENT number is handed out
within it; the transaction shows in ``innodb_trx`` from its first access to a table of InnoDB on, which may have had to
wait (LOCK TABLES, ALTER TABLE). So statements that run are read first, from the process list, and transactions after
them. The server keeps an answer of ``innodb_trx`` for 0.1 s, or longer while somebody reads it: only one that shows a
transaction which was begun here after the statements were read is young enough. A transaction that was prepared (XA)
loses its session when that goes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_clock import instant_before
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_visibility import Look, OpenTransaction

__all__ = ["fresh_look", "probe_of"]

_SESSIONS = sa.table(
    "processlist",
    *map(sa.column, ("ID", "USER", "COMMAND", "TIME", "INFO")),
    schema="information_schema",
)
_TRANSACTIONS = sa.table(
    "innodb_trx",
    *map(
        sa.column,
        ("trx_id", "trx_mysql_thread_id", "trx_started", "trx_is_read_only", "trx_autocommit_non_locking"),
    ),
    schema="information_schema",
)
_BEGIN = sa.text("START TRANSACTION WITH CONSISTENT SNAPSHOT")
_REPLICATING = ("Connect", "Query", "Slave_IO", "Slave_SQL", "Slave_worker")
_PAGE = 100
# Outside of a transaction; those after the first are what other readers begin with.
_ADDS_NOTHING = ("SELECT", "START TRANSACTION", "SET TIME_ZONE", "SET SESSION TRANSACTION", "SET MAX_")


def probe_of(plan: Plan, given: int) -> Statement:
    """Return the query of a mark, which has no row where no row lies above a cursor."""
    if plan.edge_form == "cursor":
        return plan.keyset.top(given)
    stamp = instant_before(plan.shape.dialect, plan.cursor[0], plan.settle, plan.selection.timezone)
    return sa.select(sa.cast(stamp, sa.String)).select_from(plan.keyset.some(given).subquery("probe"))


async def fresh_look(reader: SqlReader, plan: Plan, mark: Sequence[Any]) -> Look | None:
    """Return what is open now; None when the server only gave an answer that it had kept.

    :param mark: the row of :func:`probe_of`, from before.
    :raises SourceError: when this server or this user cannot tell the open transactions.
    """
    sessions, _, transactions = await reader.fetch_in_turn(_RUNNING, _BEGIN, _OPEN)
    now, me = sessions[0][:2]
    _refuse_replica(plan, sessions)
    if not any(row[1] == me for row in transactions):
        return None
    others = {row[1]: row for row in transactions if row[1] != me}
    opened = [*_open(transactions, me), *_running(sessions, others)]
    value = tuple(mark) if plan.edge_form == "cursor" else mark[0]
    return Look(now=now.replace(tzinfo=dt.UTC), mark=value, open=opened)


def _sessions() -> Statement:
    session = _SESSIONS.c
    text = sa.func.left(sa.func.ltrim(session.INFO), _PAGE).label("statement")
    # In a trigger or a function, which the list shows in place of the statement that runs them, every SELECT has INTO.
    stores = session.INFO.op("REGEXP")(sa.literal_column("'[[:space:]]INTO[[:space:]]'")).label("stores")
    running = sa.and_(session.INFO.is_not(None), session.COMMAND != "Sleep")
    return sa.select(
        sa.func.utc_timestamp(sa.literal_column("6")).label("clock"),
        sa.func.connection_id().label("me"),
        session.ID,
        session.USER,
        session.COMMAND,
        session.TIME,
        text,
        stores,
    ).where(sa.or_(sa.func.connection_id() == session.ID, running, session.USER == "system user"))


def _transactions() -> Statement:
    transaction = _TRANSACTIONS.c
    # In the zone of the server's system, whatever that of the session.
    now = sa.func.convert_tz(sa.func.utc_timestamp(), "+00:00", "SYSTEM")
    session = _SESSIONS.alias("session")
    return sa.select(
        sa.cast(transaction.trx_id, sa.String).label("transaction"),
        transaction.trx_mysql_thread_id,
        sa.cast(transaction.trx_started, sa.String).label("started"),
        sa.func.timestampdiff(sa.literal_column("SECOND"), transaction.trx_started, now).label("age"),
        sa.or_(transaction.trx_is_read_only == 1, transaction.trx_autocommit_non_locking == 1).label("reads"),
        session.c.USER,
    ).select_from(_TRANSACTIONS.outerjoin(session, transaction.trx_mysql_thread_id == session.c.ID))


_RUNNING, _OPEN = _sessions(), _transactions()


def _refuse_replica(plan: Plan, sessions: Sequence[Sequence[Any]]) -> None:
    if any(row[3] == "system user" and row[4] in _REPLICATING for row in sessions):
        msg = (
            f"{plan.where}: this server is a replica, which does not know the open transactions of its source: a row "
            "that commits late would be missed. Connect to the source; or give visibility='none' with a settle that "
            "is longer than any transaction and the replica's delay"
        )
        raise SourceError(msg)


def _open(transactions: Sequence[Sequence[Any]], me: int) -> Iterator[OpenTransaction]:
    for number, thread, started, age, reads, user in transactions:
        if thread == me or reads:
            continue
        if thread:
            who = f"the transaction of {user} (connection {thread})"
            yield OpenTransaction(id=f"{thread} {started}", who=who, age=float(age), heir_of=f"{thread} statement")
        else:
            who = f"the prepared transaction {number} (XA RECOVER lists them)"
            yield OpenTransaction(id=f"prepared {number}", who=who, age=float(age), heir_of="")


def _running(sessions: Sequence[Sequence[Any]], transactions: Mapping[int, Sequence[Any]]) -> Iterator[OpenTransaction]:
    """Yield the statements that are no transaction yet. A SELECT outside of a transaction adds nothing."""
    for _, me, thread, user, _, seconds, statement, stores in sessions:
        if thread == me or thread in transactions or statement is None:
            continue
        if statement.upper().startswith(_ADDS_NOTHING) and not stores:
            continue
        who = f"a statement of {user} (connection {thread}: {statement[:40]!r})"
        yield OpenTransaction(id=f"{thread} statement", who=who, age=float(seconds), at_most=float(seconds) + 1.0)
