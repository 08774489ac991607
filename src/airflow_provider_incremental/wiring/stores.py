"""Which store this process uses: what ``[incremental] store`` names, or the embedded default."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from asgiref.sync import sync_to_async

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.stores.registry import shared_store
from airflow_provider_incremental.wiring.airflow import airflow_home, get_connection, setting
from airflow_provider_incremental.wiring.connections import TLS_EXTRAS, named_extras

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = ["embedded_path", "open_store", "open_store_url", "say_embedded_once", "store_url"]

log = logging.getLogger(__name__)

_BY_CONNECTION = "conn:"
_SCHEMES = {"postgres": "postgresql", "mysql": "mysql", "sqlite": "sqlite"}


def embedded_path() -> Path:
    """Return the file of the embedded default store."""
    return airflow_home() / "incremental.db"


def store_url(given: str | None = None) -> str:
    """Return the URL of the store, with its password: for opening, never for showing.

    :param given: a URL, or ``conn:`` and the id of an Airflow connection; None for the setting ``[incremental] store``.
    :raises ConfigurationError: when the connection is of a kind that no store is made for.
    """
    chosen = (given or setting("store")).strip()
    if not chosen:
        return f"sqlite:///{embedded_path()}"
    if chosen.startswith(_BY_CONNECTION):
        return _connection_url(chosen.removeprefix(_BY_CONNECTION))
    return chosen


@asynccontextmanager
async def open_store(given: str | None = None) -> AsyncGenerator[WatermarkStore, None]:
    """Open the store for as long as the block lasts; everything in one event loop shares its engine.

    :param given: as for :func:`store_url`.
    :raises ConfigurationError: when the setting names no store.

    >>> async with open_store() as store:  # doctest: +SKIP
    ...     await store.list_watermarks()
    """
    # The thread of sync_to_async: a connection is looked up through the triggerer's one channel to its supervisor.
    async with open_store_url(await sync_to_async(store_url)(given)) as store:
        yield store


@asynccontextmanager
async def open_store_url(url: str) -> AsyncGenerator[WatermarkStore, None]:
    """Open the store of a URL that :func:`store_url` gave."""
    if url == f"sqlite:///{embedded_path()}":
        say_embedded_once()
        await asyncio.to_thread(upgrade_embedded, embedded_path())
    async with shared_store(url) as store:
        yield store


@cache
def say_embedded_once() -> None:
    """Tell an administrator, once a process, that the default store is in use."""
    log.warning(
        "watermarks are kept in %s, the default: it serves one machine only. Where triggerer and workers run on "
        "several machines, set [incremental] store to a database, and run `airflow-incremental db upgrade`",
        embedded_path(),
    )


def _connection_url(conn_id: str) -> str:
    connection = get_connection(conn_id)
    scheme = _SCHEMES.get(connection.conn_type or "")
    if scheme is None:
        msg = (
            f"[incremental] store = conn:{conn_id} is a connection of type {connection.conn_type!r}; "
            f"a store can be kept in {', '.join(_SCHEMES)}"
        )
        raise ConfigurationError(msg)
    if scheme == "sqlite":
        return f"sqlite:///{connection.host or connection.schema}"
    return f"{scheme}://{_authority(connection)}/{quote(connection.schema or '', safe='')}{_query(connection)}"


def _authority(connection: Connection) -> str:
    user = quote(connection.login or "", safe="")
    password = f":{quote(connection.password, safe='')}" if connection.password else ""
    port = f":{connection.port}" if connection.port else ""
    return f"{user}{password}@{connection.host or 'localhost'}{port}"


def _query(connection: Connection) -> str:
    named = named_extras(connection, TLS_EXTRAS)
    return f"?{urlencode(named)}" if named else ""
