"""``preflight``: look at a table or a query before it is watched, with the arguments that the trigger will have."""

from __future__ import annotations

from typing import Any

from airflow_provider_incremental.sources import sql_preflight
from airflow_provider_incremental.sources.sql_arguments import SqlSelection, check_sql_arguments
from airflow_provider_incremental.sources.sql_preflight import Finding, Preflight
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.wiring.connections import reader_of
from airflow_provider_incremental.wiring.lookup import look_up
from airflow_provider_incremental.wiring.sync import LoopThread

__all__ = ["Finding", "Preflight", "preflight"]


def preflight(conn_id: str, **selection: Any) -> Preflight:
    """Return everything that would refuse, slow down or mislead a trigger with these arguments.

    It looks at: access, columns, types, uniqueness, NULLs, the index that serves a poll (on PostgreSQL also the plan),
    clocks. Nothing is written. Each finding says what to do; ``result.ddl`` has the statements that would mend it.

    :param conn_id: the Airflow connection of the database.
    :param selection: ``table`` or ``sql``, ``cursor``, ``unique``, ``where``, ``visibility`` and the like, as for
        :class:`SQLIncrementalQueryTrigger`.
    :raises ConfigurationError: when an argument cannot be used, or there is no such connection.

    >>> preflight("shop", table="public.orders", cursor=["updated_at", "id"]).ok  # doctest: +SKIP
    True
    """
    checked = check_sql_arguments(**selection)
    connection = look_up(conn_id, "conn_id")
    loop = LoopThread()
    try:
        return loop.run(_looked_at(reader_of(connection), checked))
    finally:
        loop.close()


async def _looked_at(reader: SqlReader, selection: SqlSelection) -> Preflight:
    try:
        return await sql_preflight.preflight(reader, selection)
    finally:
        await reader.aclose()
