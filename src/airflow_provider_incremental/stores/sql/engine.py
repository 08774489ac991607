"""From the text of a setting to an engine: which database, which driver, which pool."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores.sql.driver_arguments import SETTING, mysql_arguments, postgresql_arguments

__all__ = ["SETTING", "create_engine", "is_database", "shown", "store_url", "unknown_scheme"]

_DRIVERS = {
    "postgresql": ("postgresql+asyncpg", {"asyncpg", "psycopg2", "psycopg"}),
    "postgres": ("postgresql+asyncpg", {"asyncpg", "psycopg2", "psycopg"}),
    "mysql": ("mysql+aiomysql", {"aiomysql", "pymysql", "mysqldb", "mysqlconnector"}),
    "mariadb": ("mysql+aiomysql", {"aiomysql", "pymysql", "mysqldb", "mysqlconnector", "mariadbconnector"}),
    "sqlite": ("sqlite+aiosqlite", {"aiosqlite", "pysqlite"}),
}
_KNOWN = "postgresql://, mysql://, mariadb://, sqlite:///, api+https://, memory://"

_POOL_SIZE = 5
_POOL_OVERFLOW = 10
_POOL_WAIT = 20.0
RECYCLE = 1800
"""Seconds after which a connection is made anew: some networks drop what is older."""
BUSY_TIMEOUT = 30.0
"""Seconds that a writer waits for SQLite's one write lock."""


def is_database(scheme: str) -> bool:
    """Whether an address with this scheme is one of a database, with a driver's name in it or without."""
    return scheme.lower().partition("+")[0] in _DRIVERS


def unknown_scheme(url: str, *others: str) -> ConfigurationError:
    """Return the error for an address that leads to no store.

    :param others: schemes of stores that are not this package's own.
    """
    # Without a scheme the text may be anything, also a secret.
    named = f"the scheme {url.partition('://')[0]!r}" if "://" in url else "no scheme"
    known = ", ".join([_KNOWN, *(f"{each}://" for each in others)])
    return ConfigurationError(
        f"{SETTING} has {named}, which no store knows; give one of {known} or conn:<connection id>"
    )


def store_url(url: str) -> URL:
    """Return the address of a store's database with the async driver that we use for it.

    :param url: ``postgresql://``, ``mysql://``, ``mariadb://`` or ``sqlite:///`` with any usual driver's name in it.
    :raises ConfigurationError: for another scheme, an address that cannot be read, or a driver that is missing.

    >>> store_url("postgres://app:secret@db/shop").drivername
    'postgresql+asyncpg'
    """
    scheme = url.partition("://")[0]
    database, _, driver = scheme.partition("+")
    drivername, drivers = _DRIVERS.get(database.lower(), ("", set[str]()))
    if "://" not in url or not drivername or (driver and driver not in drivers):
        raise unknown_scheme(url)
    try:
        parsed = make_url(url).set(drivername=drivername)
    except (sa.exc.ArgumentError, ValueError):
        # Neither the address nor the parser's message is shown: both may hold the password.
        msg = f"{SETTING} is not a valid {database} address; write {database}://user:password@host:port/database"
        raise ConfigurationError(msg) from None
    _require_driver(parsed)
    return _require_file(parsed) if drivername.startswith("sqlite") else parsed


def shown(url: URL) -> str:
    """Return an address as errors and logs may show it: no driver, no password, no options."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def create_engine(url: URL) -> AsyncEngine:
    """Return an engine with a small pool for an address from :func:`store_url`; nothing connects yet.

    On SQLite nobody begins a transaction but who sends BEGIN.

    :raises ConfigurationError: when an option in the address cannot be read.
    """
    backend = url.get_backend_name()
    options: dict[str, Any] = {}
    if backend == "postgresql":
        options = {"connect_args": postgresql_arguments(url), "isolation_level": "READ COMMITTED"}
        url = url.set(query={})
    elif backend == "mysql":
        options = {"connect_args": mysql_arguments(url), "isolation_level": "READ COMMITTED"}
        url = url.set(query={})
    else:
        # No implicit BEGIN from the driver: the store begins its write transactions itself.
        options = {"connect_args": {"timeout": BUSY_TIMEOUT, "isolation_level": None}}
    engine = create_async_engine(
        url,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW,
        pool_timeout=_POOL_WAIT,
        pool_recycle=RECYCLE,
        hide_parameters=True,
        **options,
    )
    if backend == "postgresql":
        event.listen(engine.sync_engine, "checkout", _refuse_closed)
    if backend == "sqlite":
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "invalidate", _roll_back)
    return engine


def _require_driver(url: URL) -> None:
    driver = url.get_driver_name()
    if importlib.util.find_spec(driver) is None:
        extra = "[mysql]" if driver == "aiomysql" else ""
        msg = (
            f"{SETTING} names a {url.get_backend_name()} database, whose driver {driver} is not installed: "
            f"pip install 'airflow-provider-incremental{extra}'"
        )
        raise ConfigurationError(msg)


def _require_file(url: URL) -> URL:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        msg = f"{SETTING} names no file; give sqlite:////an/absolute/path.db, or memory:// for tests"
        raise ConfigurationError(msg)
    if not url.database.startswith("/"):
        msg = (
            f"{SETTING}=sqlite:///{url.database} is relative, so that each process would find another file; "
            f"give an absolute path, with four slashes: sqlite:////path/to/{url.database}"
        )
        raise ConfigurationError(msg)
    return url


def _refuse_closed(connection: Any, *_: object) -> None:
    """Let the pool replace a connection that the server closed: asyncpg knows it without asking the server."""
    if connection.driver_connection.is_closed():
        msg = "the server closed the connection"
        raise sa.exc.DisconnectionError(msg)


def _prepare_sqlite(connection: Any, *_: object) -> None:
    try:
        cursor = connection.cursor()
        for setting in ("journal_mode=WAL", f"busy_timeout={int(BUSY_TIMEOUT * 1000)}", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {setting}")
        cursor.close()
    except BaseException:
        # Nobody else closes a connection that never came into use, and its thread would keep the process from ending.
        connection.close()
        raise


def _roll_back(connection: Any, *_: object) -> None:
    """Let go of SQLite's one write lock before a connection is closed in the middle of a statement.

    Closing alone keeps the lock until Python has collected the last cursor, which a traceback may hold on to.
    """
    # When even this is cancelled, the rollback is on its way, and the first cancellation is what the caller sees.
    with contextlib.suppress(connection.dbapi.Error, sa.exc.MissingGreenlet, asyncio.CancelledError):
        connection.rollback()
