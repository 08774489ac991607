"""What an error of a driver means for the operation that met it: try again, say what is wrong, or both."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

import asyncpg
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import StoreError, StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.stores.sql.engine import SETTING

__all__ = [
    "DRIVER_ERRORS",
    "DatabaseFailedError",
    "Failure",
    "classify",
    "missing_folder",
    "not_migrated",
    "translated",
]

DRIVER_ERRORS = (sa.exc.SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, sqlite3.Error, OSError)
"""Everything that the three drivers, the pool and the network raise; ``TimeoutError`` is an ``OSError``."""

_UPGRADE = "airflow-incremental db upgrade"


class DatabaseFailedError(StoreError):
    """The database refused an operation for a reason that nobody has foreseen."""


class Failure(Enum):
    """What became of the operation."""

    ROLLED_BACK = "the database undid it: a deadlock, a lock that was not to be had"
    DISCONNECTED = "the connection was lost before the answer came"
    READ_ONLY = "the session takes no changes: its server is a standby, or was one when the session began"
    UNAVAILABLE = "there is no connection to be had"
    NOT_MIGRATED = "a table or a column is missing"
    OTHER = "anything else"


_BY_SQLSTATE = {
    "40001": Failure.ROLLED_BACK,  # serialization failure
    "40P01": Failure.ROLLED_BACK,  # deadlock
    "55P03": Failure.ROLLED_BACK,  # lock not available
    "42P01": Failure.NOT_MIGRATED,  # undefined table
    "42703": Failure.NOT_MIGRATED,  # undefined column
    "3F000": Failure.NOT_MIGRATED,  # no such schema
    "57P01": Failure.DISCONNECTED,  # administrator's shutdown
    "57P02": Failure.DISCONNECTED,  # crash of another session
    "57P03": Failure.UNAVAILABLE,  # starting up
    "55000": Failure.UNAVAILABLE,  # a database that takes no connections
    "25006": Failure.READ_ONLY,
    "42501": Failure.OTHER,
}
_BY_SQLSTATE_CLASS = {
    "08": Failure.DISCONNECTED,
    "28": Failure.UNAVAILABLE,  # login refused
    "3D": Failure.UNAVAILABLE,  # no such database
    "53": Failure.UNAVAILABLE,  # no connections, no memory, no disk
}
_BY_MYSQL_NUMBER = {
    1213: Failure.ROLLED_BACK,  # deadlock
    1205: Failure.ROLLED_BACK,  # lock wait timeout
    1020: Failure.ROLLED_BACK,  # record changed since last read
    1146: Failure.NOT_MIGRATED,  # no such table
    1054: Failure.NOT_MIGRATED,  # no such column
    2006: Failure.DISCONNECTED,
    2013: Failure.DISCONNECTED,
    2055: Failure.DISCONNECTED,
    1927: Failure.DISCONNECTED,  # killed
    1053: Failure.DISCONNECTED,  # shutting down
    **dict.fromkeys((2002, 2003, 2005, 1040, 1044, 1045, 1049, 1129, 1130, 1203, 1226), Failure.UNAVAILABLE),
    **dict.fromkeys((1290, 1792, 1836), Failure.READ_ONLY),
}
_BY_SQLITE_CODE = {
    sqlite3.SQLITE_BUSY: Failure.ROLLED_BACK,
    sqlite3.SQLITE_LOCKED: Failure.ROLLED_BACK,
    sqlite3.SQLITE_CANTOPEN: Failure.UNAVAILABLE,
    sqlite3.SQLITE_NOTADB: Failure.UNAVAILABLE,
    sqlite3.SQLITE_READONLY: Failure.UNAVAILABLE,
    sqlite3.SQLITE_IOERR: Failure.UNAVAILABLE,
    sqlite3.SQLITE_FULL: Failure.UNAVAILABLE,
}
_SQLITE_PRIMARY = 0xFF


def classify(error: BaseException) -> Failure:
    """Return what an error of :data:`DRIVER_ERRORS` means.

    >>> classify(ConnectionRefusedError())
    <Failure.UNAVAILABLE: 'there is no connection to be had'>
    """
    for each in _causes(error):
        if isinstance(each, asyncpg.InvalidCachedStatementError):
            return Failure.ROLLED_BACK  # a migration changed a table under a statement that was prepared before
        failure = _by_code(each)
        if failure is not None:
            return failure
    if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
        return Failure.DISCONNECTED
    if isinstance(error, asyncpg.InterfaceError):
        return Failure.DISCONNECTED
    if any(isinstance(each, (OSError, sa.exc.TimeoutError, sa.exc.DisconnectionError)) for each in _causes(error)):
        return Failure.UNAVAILABLE
    return Failure.OTHER


def translated(error: BaseException, where: str) -> StoreError:
    """Return our error for one of a driver; it names the store, the trouble and the remedy, never a password."""
    failure = classify(error)
    if failure is Failure.NOT_MIGRATED:
        return not_migrated(where, _innermost(error))
    if failure in (Failure.UNAVAILABLE, Failure.DISCONNECTED):
        folder = missing_folder(where)
        trouble = f"there is no folder {folder}, which is not made for you" if folder else _innermost(error)
        msg = f"the store {where} cannot be reached: {trouble}. Check {SETTING} and that the database is up"
        return StoreUnavailableError(msg)
    if failure is Failure.READ_ONLY:
        msg = f"the store {where} takes no changes: {_innermost(error)}. Check that {SETTING} names the primary"
        return StoreUnavailableError(msg)
    if failure is Failure.ROLLED_BACK:
        msg = f"the store {where} is too busy: {_innermost(error)}. Nothing was changed; try again"
        return StoreUnavailableError(msg)
    return DatabaseFailedError(f"the store {where} failed: {_innermost(error)}")


def not_migrated(where: str, trouble: str) -> StoreNotMigratedError:
    """Return the error for a database without our tables."""
    msg = (
        f"the store {where} is not ready: {trouble}. If {SETTING} names the right database, make or upgrade its tables "
        f"with `{_UPGRADE}`"
    )
    return StoreNotMigratedError(msg)


def missing_folder(where: str) -> Path | None:
    """Return the folder of a SQLite file when it is not there; SQLite says only that it cannot open the file."""
    path = where.removeprefix("sqlite:///")
    if not path.startswith("/") or Path(path).parent.is_dir():
        return None
    return Path(path).parent


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps; the adapters of SQLAlchemy put the driver's own error one or two steps down."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop(0)
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [getattr(each, "orig", None), each.__cause__]


def _by_code(error: BaseException) -> Failure | None:
    # Errors of PyMySQL, which aiomysql raises, begin with their number; some of its releases give a vaguer state, too.
    if type(error).__module__.startswith("pymysql") and error.args and isinstance(error.args[0], int):
        return _BY_MYSQL_NUMBER.get(error.args[0])
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return _BY_SQLSTATE.get(state) or _BY_SQLSTATE_CLASS.get(state[:2])
    if isinstance(error, sqlite3.Error):
        return _by_sqlite(error)
    return None


def _by_sqlite(error: sqlite3.Error) -> Failure | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & _SQLITE_PRIMARY in _BY_SQLITE_CODE:
        return _BY_SQLITE_CODE[code & _SQLITE_PRIMARY]
    # SQLite has one code for every error in a statement; a test holds these words to the library in use.
    missing = str(error).startswith(("no such table", "no such column")) or "has no column named" in str(error)
    return Failure.NOT_MIGRATED if missing else None


def _innermost(error: BaseException) -> str:
    """The driver's own words: SQLAlchemy adds the statement, which helps nobody who reads a status."""
    if isinstance(error, TimeoutError) and not str(error):
        return "it did not answer in time"
    *_, last = (each for each in _causes(error) if str(each)) if str(error) else (error,)
    return describe(last)
