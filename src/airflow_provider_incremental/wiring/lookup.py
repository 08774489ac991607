"""Airflow connections by their ids; of one that is not there, everybody says the same, and which parameter names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.wiring.airflow import (
    AirflowNotFoundException,
    aget_connection,
    ais_missing,
    get_connection,
)

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = ["alook_up", "look_up"]


def look_up(conn_id: str, where: str) -> Connection:
    """Return a connection, outside of an event loop.

    :param where: the parameter or the setting that names it.
    :raises ConfigurationError: when there is none; with what to do.
    """
    try:
        return get_connection(conn_id)
    except AirflowNotFoundException as error:
        raise _missing(conn_id, where) from error


async def alook_up(conn_id: str, where: str) -> Connection:
    """Return a connection, inside of a triggerer's event loop; as :func:`look_up`.

    :raises ConnectionError: when Airflow cannot say at present whether there is one.
    """
    try:
        return await aget_connection(conn_id)
    except AirflowNotFoundException as error:
        if await ais_missing(conn_id):
            raise _missing(conn_id, where) from error
        msg = f"Airflow could not be asked for the connection {conn_id!r} ({where}); it is asked again"
        raise ConnectionError(msg) from error


def _missing(conn_id: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"there is no connection {conn_id!r} ({where}): Airflow does not find it here. See `airflow connections list`, "
        f"or set AIRFLOW_CONN_{conn_id.upper()} where this process has no access to Airflow's database"
    )
