"""``SQLIncrementalQueryTrigger``: arguments become a SQL source; the rest is the base's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from airflow_provider_incremental.core.checks import Seconds, as_seconds
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.sources.sql_arguments import (
    NullCursor,
    Payload,
    SqlSelection,
    Visibility,
    check_sql_arguments,
)
from airflow_provider_incremental.sources.sql_notify import check_channel
from airflow_provider_incremental.sources.sql_removal_arguments import check_removals
from airflow_provider_incremental.sources.sql_source import SqlSource
from airflow_provider_incremental.triggers._base import IncrementalTrigger, TriggerOptions
from airflow_provider_incremental.wiring.connections import ConnectionReader
from airflow_provider_incremental.wiring.notifications import ConnectionNotifications

__all__ = ["SQLIncrementalQueryTrigger"]

_LISTENING_APART = 2.0


class SQLIncrementalQueryTrigger(IncrementalTrigger):
    """Hands new and changed rows of a table or a query to the DAGs scheduled on an asset, in batches.

    Rows come in the order of the cursor columns, which the database compares, with bound parameters of its own types.
    PostgreSQL is read through asyncpg, every other connection with a ``DbApiHook`` in a worker thread.

    :param asset_name: the name of the asset that this trigger's watcher belongs to.
    :param conn_id: the Airflow connection of the database.
    :param table: the table, or ``schema.table``; or
    :param sql: a query without a condition on the cursor, an ORDER BY or a LIMIT of its own: it is read as
        ``SELECT ... FROM (sql)``. This text is trusted, and sent as it is.
    :param cursor: the columns that give the rows their order, such as ``["updated_at", "id"]``. No two rows may agree
        in all of them.
    :param unique: your word that no two rows agree in the cursor's columns: a query needs it, a table has its keys.
    :param where: a condition that rows meet for good, such as ``"status = :status"``. This text is trusted, too.
    :param parameters: values of ``:name`` in ``sql`` or ``where``, which the driver binds: texts, numbers, booleans,
        None, and lists of them.
    :param null_cursor: what becomes of rows with NULL in a cursor column: ``"error"`` (the default), or ``"skip"`` to
        leave them out, counted in the watermark's status, until they have a value.
    :param columns: what to deliver of each row, with the cursor columns among it; by default every column.
    :param payload: ``"rows"`` (the default), or ``"range"`` for bounds and a count only: the consumer reads for itself,
        by ``batch.where()``, in a query that repeats ``where``.
    :param start: ``"earliest"`` (the default), ``"latest"``, or a value for each cursor column (times in ISO 8601):
        the first batch begins above it.
    :param max_rows: at most so many rows a batch (default 1,000).
    :param poll_interval: seconds between two polls (default 30).
    :param visibility: ``"committed"`` (the default on PostgreSQL, MySQL and MariaDB): a poll stays below whatever a
        transaction that is open can still add, so that a row that commits late is not missed. The user needs
        ``pg_read_all_stats``, or ``PROCESS``. ``"none"`` (the default elsewhere): it looks at no transactions.
    :param max_hold: seconds after which an open transaction is not waited for any more, and counted as a risk; by
        default it is waited for until it ends, and shown in the watermark's status.
    :param settle: seconds (default 1) that a poll stays behind the database's clock, where the first cursor column is
        a timestamp. With ``visibility="none"`` give the longest time that a writing transaction takes.
    :param lateness: how far behind the watermark each poll reads again, for rows that appear late (default 0): seconds
        where the cursor begins with a time, units where it begins with a number. No row comes again for that.
    :param timezone: the zone whose wall clock a first cursor column without zone holds, such as ``"Asia/Kolkata"``; by
        default the database's own.
    :param listen: a channel of PostgreSQL's: its notifications wake the trigger at once, and polls stay the safety net.
        ``airflow-incremental notify TABLE CHANNEL`` prints the SQL of the table's part. Events may then be 2 seconds
        apart, unless announce_interval says otherwise.
    :param removals: look for rows that are gone, and hand their keys on in batches of kind ``"removed"``. All keys are
        read for it, in their order, at most a tenth of the time.
    :param primary_key: the columns that tell the rows apart; for ``removals=True``.
    :param deleted_column: a column that says of a row that it is deleted (true, a number but 0, or a time, but not
        ``infinity`` or 9999-12-31): such rows come in batches of kind ``"removed"``.
    :param options: :class:`IncrementalTrigger` describes namespace, key, announce_interval and redeliver_after.
    :raises ConfigurationError: in a DAG file, for an argument that cannot be used.

    >>> SQLIncrementalQueryTrigger(
    ...     asset_name="orders", conn_id="shop", table="public.orders", cursor=["updated_at", "id"]
    ... )
    <airflow_provider_incremental.triggers.SQLIncrementalQueryTrigger asset_name=orders, ...>
    """

    __module__ = "airflow_provider_incremental.triggers"

    def __init__(
        self,
        *,
        asset_name: str,
        conn_id: str,
        cursor: str | Sequence[str],
        table: str | None = None,
        sql: str | None = None,
        unique: bool = False,
        where: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        null_cursor: NullCursor = "error",
        columns: Sequence[str] | None = None,
        payload: Payload = "rows",
        max_rows: int = 1000,
        poll_interval: Seconds = 30,
        visibility: Visibility | None = None,
        max_hold: Seconds | None = None,
        settle: Seconds = 1,
        lateness: Seconds = 0,
        timezone: str | None = None,
        listen: str | None = None,
        removals: bool = False,
        primary_key: str | Sequence[str] | None = None,
        deleted_column: str | None = None,
        **options: Unpack[TriggerOptions],
    ) -> None:
        self.selection: SqlSelection = check_sql_arguments(
            cursor=cursor,
            table=table,
            sql=sql,
            unique=unique,
            where=where,
            parameters=parameters,
            null_cursor=null_cursor,
            columns=columns,
            payload=payload,
            max_rows=max_rows,
            visibility=visibility,
            max_hold=None if max_hold is None else as_seconds("max_hold", max_hold),
            settle=as_seconds("settle", settle),
            lateness=as_seconds("lateness", lateness),
            timezone=timezone,
        )
        self.removals = check_removals(
            self.selection, removals=removals, primary_key=primary_key, deleted_column=deleted_column
        )
        self.listen, options = _listening(listen, poll_interval, _fitting(options, self.selection.cursor))
        super().__init__(asset_name=asset_name, max_items=max_rows, poll_interval=poll_interval, **options)
        self.conn_id = _connection_id(conn_id)

    def create_source(self) -> Source:
        """Return the source; it connects at its first poll."""
        conn_id, channel = self.conn_id, self.listen
        return SqlSource(
            reader=ConnectionReader(conn_id=conn_id),
            conn_id=conn_id,
            selection=self.selection,
            notifications=None if channel is None else ConnectionNotifications(conn_id=conn_id, channel=channel),
            removals=self.removals,
            clock=self.clock,
        )


def _fitting(options: TriggerOptions, cursor: Sequence[str]) -> TriggerOptions:
    """Return the options; refuse the name of another trigger's, and a start that is no value for each cursor column."""
    given: Mapping[str, Any] = options
    if "max_items" in given:
        msg = f"max_items={given['max_items']!r} has another name here: max_rows, at most so many rows a batch"
        raise ConfigurationError(msg)
    start = given.get("start")
    remedy = f"give a value for each of {list(cursor)!r}, as a list in their order"
    if isinstance(start, Mapping):
        raise ConfigurationError(f"start={start!r} cannot be used; {remedy}")
    if isinstance(start, (list, tuple)) and len(start) > len(cursor):
        raise ConfigurationError(f"start={start!r} has more values than the cursor has columns; {remedy}")
    return options


def _listening(
    channel: str | None, poll_interval: Seconds, options: TriggerOptions
) -> tuple[str | None, TriggerOptions]:
    """Return the channel, checked, and the options with the time that events are apart while it is listened to."""
    if channel is None:
        return None, options
    checked = check_channel(channel)
    if options.get("announce_interval") is None:
        options["announce_interval"] = min(as_seconds("poll_interval", poll_interval), _LISTENING_APART)
    return checked, options


def _connection_id(conn_id: Any) -> str:
    if not isinstance(conn_id, str) or not conn_id:
        raise ConfigurationError(f"conn_id={conn_id!r} is not the id of a connection; give a text")
    return conn_id
