"""Brings the store's database to the revision that this release works with, or says that it is not there.

Through the store's own driver, whichever database it is, so that no second one has to be installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.migrations import HEAD
from airflow_provider_incremental.migrations.current import READ_REVISION, current_revision, require_head
from airflow_provider_incremental.stores.sql.engine import BUSY_TIMEOUT, create_engine, shown, store_url
from airflow_provider_incremental.stores.sql.failures import DRIVER_ERRORS, missing_folder, not_migrated, translated
from airflow_provider_incremental.stores.sql.tables import version_table

__all__ = ["check", "sql", "upgrade", "upgrade_embedded"]

T = TypeVar("T")

_PRIVATE = 0o600

_DIALECTS = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql", "mariadb": "mysql"}
_DIALECTS["sqlite"] = "sqlite"


async def upgrade(url: str) -> bool:
    """Bring a database to the newest revision; every upgrade of it that starts meanwhile waits.

    :param url: the store's address, as in ``[incremental] store``.
    :return: whether there was anything to do.
    :raises ConfigurationError: when the address is of no known database, or its driver is missing.
    :raises StoreUnavailableError: when the database cannot be reached.
    :raises StoreNotMigratedError: when a newer release made the tables, or they are not the ones we know.

    >>> await upgrade("postgresql://app:secret@db/watermarks")  # doctest: +SKIP
    True
    """
    # In a thread with a loop of its own: Alembic runs one at a time, and whoever waits may not hold up this loop.
    return await asyncio.to_thread(_upgrade_now, store_url(url))


async def check(url: str) -> None:
    """Raise unless a database is reachable and at the revision that this release works with.

    :param url: the store's address, as in ``[incremental] store``.
    :raises ConfigurationError: when the address is of no known database, or its driver is missing.
    :raises StoreUnavailableError: when the database cannot be reached.
    :raises StoreNotMigratedError: naming the setting and the command to run.
    """
    address = store_url(url)
    if await asyncio.to_thread(_may_exist, address):
        require_head(await _on_connection(address, current_revision), shown(address))
        return
    folder = missing_folder(shown(address))
    raise not_migrated(shown(address), f"there is no folder {folder}" if folder else "there is no such file")


def upgrade_embedded(path: Path) -> bool:
    """Bring the embedded default, a SQLite file, to the newest revision, and make it where there is none.

    Safe when any number of threads and processes do it at once, and one small read when there is nothing to do. It
    blocks: call it in a thread where an event loop runs.

    :return: whether there was anything to do.
    :raises StoreUnavailableError: when the file cannot be made, opened or read.
    :raises StoreNotMigratedError: when a newer release made its tables.
    """
    if _is_at_head(path):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise translated(error, str(path)) from error
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop already
        return thread.submit(_upgrade_now, URL.create("sqlite+aiosqlite", database=str(path.absolute()))).result()


def sql(dialect_or_url: str) -> str:
    """Return the SQL that makes an empty database ready, without connecting to one.

    :param dialect_or_url: ``postgresql``, ``mysql``, ``mariadb`` or ``sqlite``, or an address of such a database.
    :raises ConfigurationError: for any other database.
    """
    name = dialect_or_url.partition("://")[0].partition("+")[0].lower()
    if name not in _DIALECTS:
        msg = f"no store is made for a database of kind {name!r}; give one of {', '.join(_DIALECTS)}, or its address"
        raise ConfigurationError(msg)
    text: str = _scripts().offline(_DIALECTS[name], HEAD)
    return text


def _scripts() -> ModuleType:
    return import_module("airflow_provider_incremental.migrations.scripts")


def _upgrade_now(url: URL) -> bool:
    """Upgrade a database from a thread that has no event loop."""

    def work(connection: sa.engine.Connection) -> bool:
        return bool(_scripts().upgrade_connection(connection, shown(url)))

    if url.get_backend_name() != "sqlite":
        return asyncio.run(_on_connection(url, work))
    path = Path(str(url.database))
    with _alone_at(path):
        _make_private(path)
        return not _is_at_head(path) and asyncio.run(_on_connection(url, work))


@contextmanager
def _alone_at(path: Path) -> Generator[None, None, None]:
    """Hold the lock file of a SQLite file.

    The first connection to a new file turns its write-ahead log on, and SQLite lets the second fail there, not wait.
    """
    try:
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
    except OSError as error:
        raise translated(error, str(path)) from error
    with os.fdopen(lock, "wb"):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_private(path: Path) -> None:
    """Make a file that is not there for its owner alone: the items of batches are in it. SQLite's other files follow.

    https://sqlite.org/wal.html: write-ahead log and shared memory get the permissions of the database.
    """
    try:
        with contextlib.suppress(FileExistsError):  # whoever made it decided who may read it
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE))
    except OSError as error:
        raise translated(error, str(path)) from error


async def _on_connection(url: URL, work: Callable[[sa.engine.Connection], T]) -> T:
    """Do something on a connection of its own, in one transaction."""
    engine = create_engine(url)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    except DRIVER_ERRORS as error:
        raise translated(error, shown(url)) from error
    finally:
        await engine.dispose()


def _may_exist(url: URL) -> bool:
    """Whether connecting makes no file that was not there."""
    return url.get_backend_name() != "sqlite" or Path(str(url.database)).exists()


def _is_at_head(path: Path) -> bool:
    """Whether there is nothing to do, without loading or locking anything."""
    if not path.exists():
        return False
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (version_table,)).fetchone():
                return False
            found: object = database.execute(str(READ_REVISION)).fetchone()
            return found == (HEAD,)
    except sqlite3.Error as error:
        raise translated(error, str(path)) from error
