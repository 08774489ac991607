"""Which store this process uses: what ``[incremental] store`` names, or the embedded default."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode, urlsplit

from asgiref.sync import sync_to_async
from sqlalchemy.engine import URL

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.stores.api.address import OPTIONS, is_api
from airflow_provider_incremental.stores.registry import shared_store
from airflow_provider_incremental.wiring.airflow import airflow_home, metadata_database_url, setting
from airflow_provider_incremental.wiring.connections import TLS_EXTRAS, named_extras
from airflow_provider_incremental.wiring.lookup import look_up

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = [
    "embedded_path",
    "is_embedded",
    "open_store",
    "open_store_url",
    "say_if_embedded",
    "served_store_url",
    "store_url",
]

log = logging.getLogger(__name__)

_BY_CONNECTION = "conn:"
_SETTING = "[incremental] store"
_API_PATH = "/incremental/api"  # of Airflow's api-server
_SCHEMES = {"postgres": "postgresql", "mysql": "mysql", "sqlite": "sqlite"}


def embedded_path() -> Path:
    """Return the file of the embedded default store."""
    return airflow_home() / "incremental.db"


def is_embedded(url: str) -> bool:
    """Whether a URL that :func:`store_url` gave is the embedded default, which upgrades itself."""
    return url == _file_url(embedded_path())


def store_url(given: str | None = None, *, where: str = _SETTING) -> str:
    """Return the URL of the store, with its password: for opening, never for showing.

    :param given: a URL, or ``conn:`` and the id of an Airflow connection; None for the setting ``[incremental] store``.
    :param where: what names it, for a message.
    :raises ConfigurationError: when there is no such connection, or it is of a kind that no store is made for.
    """
    chosen = (given or setting("store")).strip()
    if not chosen:
        return _file_url(embedded_path())
    if chosen.startswith(_BY_CONNECTION):
        return _connection_url(chosen.removeprefix(_BY_CONNECTION), where)
    return chosen


def served_store_url() -> str:
    """Return the URL of the store that the API in Airflow's api-server serves.

    That of ``[incremental] api_store``; else that of ``[incremental] store``, unless this is an API itself, as it is
    where nobody but the api-server may reach a database; else Airflow's own database.

    :raises ConfigurationError: when a connection is of a kind that no store is made for.
    """
    for name in ("api_store", "store"):
        given = setting(name).strip()
        url = store_url(given) if given else ""
        if url and not is_api(url):
            return url
    return metadata_database_url()


@asynccontextmanager
async def open_store(given: str | None = None) -> AsyncGenerator[WatermarkStore, None]:
    """Open the store for as long as the block lasts; everything in one event loop shares its engine.

    :param given: as for :func:`store_url`.
    :raises ConfigurationError: when the setting names no store.

    >>> async with open_store() as store:  # doctest: +SKIP
    ...     await store.list_watermarks()
    """
    # The thread of sync_to_async: a connection is looked up through the triggerer's one channel to its supervisor.
    url = await sync_to_async(store_url)(given)
    say_if_embedded(url)
    async with open_store_url(url) as store:
        yield store


@asynccontextmanager
async def open_store_url(url: str) -> AsyncGenerator[WatermarkStore, None]:
    """Open the store of a URL that :func:`store_url` gave."""
    if is_embedded(url):
        await asyncio.to_thread(upgrade_embedded, embedded_path())
    async with shared_store(url) as store:
        yield store


def say_if_embedded(url: str) -> None:
    """Tell an administrator, once a process, when the store of a URL is the default."""
    if is_embedded(url):
        _say_embedded_once()


@cache
def _say_embedded_once() -> None:
    log.warning(
        "watermarks are kept in %s, the default: it serves one machine only. Where triggerer and workers run on "
        "several machines, set [incremental] store to a database, and run `airflow-incremental db upgrade`",
        embedded_path(),
    )


def _connection_url(conn_id: str, where: str) -> str:
    connection = look_up(conn_id, where)
    if connection.conn_type == "http":
        return _api_url(connection)
    scheme = _SCHEMES.get(connection.conn_type or "")
    if connection.conn_type == "aws":
        msg = f"{where} = conn:{conn_id} names no bucket; write s3://bucket/prefix?aws_conn_id={conn_id}"
        raise ConfigurationError(msg)
    if scheme is None:
        msg = (
            f"{where} = conn:{conn_id} is a connection of type {connection.conn_type!r}; "
            f"a store can be kept in {', '.join(_SCHEMES)}, or be reached by http"
        )
        raise ConfigurationError(msg)
    if scheme == "sqlite":
        return _file_url(connection.host or connection.schema or "")
    host, options = connection.host or "localhost", _options(connection)
    socket = host.startswith("/")  # its folder, or its file
    if socket:
        options["host" if scheme == "postgresql" else "unix_socket"] = host
    url = URL.create(
        scheme,
        username=connection.login,
        password=connection.password,
        host=None if socket else host,
        port=connection.port,
        database=connection.schema,
        query=options,
    )
    return url.render_as_string(hide_password=False)


def _api_url(connection: Connection) -> str:
    """Of a connection of type http, as Airflow's hook reads it: the host may be a whole URL, the schema is a protocol.

    Without a login, the password is the token. Extras: ``path`` and the options of :class:`stores.api.address.Address`.
    """
    known = ("path", *OPTIONS)
    for name in set(connection.extra_dejson) - set(known):
        meant = get_close_matches(name, known, n=1, cutoff=0.75)
        if meant:  # others are of Airflow's own hook, such as proxies
            msg = f"the connection {connection.conn_id} has the extra {name!r}: is {meant[0]!r} meant?"
            raise ConfigurationError(msg)
    host = connection.host or "localhost"
    place = urlsplit(host if "://" in host else f"{connection.schema or 'https'}://{host}")
    port = f":{connection.port}" if connection.port and not place.port else ""
    path = connection.extra_dejson.get("path") or place.path or _API_PATH
    who = ":".join(quote(each or "", safe="") for each in (connection.login, connection.password))
    options = urlencode(named_extras(connection, OPTIONS))
    url = f"api+{place.scheme}://{who}@{place.netloc}{port}/{path.strip('/')}"
    return f"{url}?{options}" if options else url


def _file_url(path: str | Path) -> str:
    return URL.create("sqlite", database=str(path)).render_as_string()


def _options(connection: Connection) -> dict[str, str]:
    """Of a connection's extras, those of TLS and the socket, by the names of Airflow's hooks."""
    options = named_extras(connection, (*TLS_EXTRAS, "ssl_mode", "unix_socket"))
    tls = connection.extra_dejson.get("ssl")
    parts = json.loads(tls) if isinstance(tls, str) and tls.startswith("{") else tls
    if isinstance(parts, dict):
        options |= {f"ssl_{name}": str(parts[name]) for name in ("ca", "cert", "key") if parts.get(name)}
    return options
