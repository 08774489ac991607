"""``preflight``: look at a table or a query before it is watched, with the arguments that the trigger will have."""

from __future__ import annotations

from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources import sql_preflight
from airflow_provider_incremental.sources.sql_findings import Finding, Preflight
from airflow_provider_incremental.sources.sql_first_poll import FirstPoll
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.triggers._arguments import parameters
from airflow_provider_incremental.triggers._sql_rows import SQLIncrementalQueryTrigger
from airflow_provider_incremental.wiring.connections import reader_of
from airflow_provider_incremental.wiring.lookup import look_up
from airflow_provider_incremental.wiring.notifications import ConnectionNotifications
from airflow_provider_incremental.wiring.sync import LoopThread

__all__ = ["Finding", "Preflight", "preflight"]

_OF_THE_BASE = "max_items"  # which the trigger gives it as max_rows


def preflight(conn_id: str, **arguments: Any) -> Preflight:
    """Return everything that would refuse, slow down or mislead a trigger with these arguments.

    It looks at: access, columns, types, uniqueness, NULLs, visibility, the index that serves a poll (on PostgreSQL also
    the plan), clocks; and it makes the first poll, for rows that nobody keeps. Nothing is written. Each finding says
    what to do; ``result.ddl`` has the statements that would mend it.

    :param conn_id: the Airflow connection of the database.
    :param arguments: those of :class:`SQLIncrementalQueryTrigger`, as they stand: ``table`` or ``sql``, ``cursor``,
        ``where``, ``parameters``, ``removals`` and all others. Only ``asset_name`` may be left out.
    :raises ConfigurationError: when an argument cannot be used, or there is no such connection.

    >>> preflight("shop", table="public.orders", cursor=["updated_at", "id"]).ok  # doctest: +SKIP
    True
    """
    _check_names(arguments)
    trigger = SQLIncrementalQueryTrigger(**{"asset_name": "preflight", "conn_id": conn_id, **arguments})
    connection = look_up(conn_id, "conn_id")
    loop = LoopThread()
    try:
        return loop.run(_looked_at(reader_of(connection), trigger))
    finally:
        loop.close()


def _check_names(arguments: dict[str, Any]) -> None:
    known = sorted(parameters(SQLIncrementalQueryTrigger).keys() - {"conn_id", _OF_THE_BASE})
    for name in arguments:
        if name not in known:
            hint = "give max_rows" if name == _OF_THE_BASE else f"it has {', '.join(known)}"
            raise ConfigurationError(f"{name}=... is no argument of SQLIncrementalQueryTrigger; {hint}")
    if "cursor" not in arguments:
        raise ConfigurationError("cursor is missing; give the columns that give the rows their order")


async def _looked_at(reader: SqlReader, trigger: SQLIncrementalQueryTrigger) -> Preflight:
    notifications = None
    if trigger.listen is not None:
        notifications = ConnectionNotifications(conn_id=trigger.conn_id, channel=trigger.listen)
    first_poll = FirstPoll(
        start=trigger.start, limit=trigger.max_items, removals=trigger.removals, notifications=notifications
    )
    try:
        return await sql_preflight.preflight(reader, trigger.selection, first_poll=first_poll)
    finally:
        await reader.aclose()
