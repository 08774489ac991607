"""Every other database, through its connection's SQLAlchemy engine: a thread and a connection for each call."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.elements import TextClause

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_engine_errors import EnginePlace
from airflow_provider_incremental.sources.sql_engine_shape import describe
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_readers import STALE, Shape
from airflow_provider_incremental.sources.sql_sharing import JoinedCalls
from airflow_provider_incremental.sources.sql_threads import BlockingCalls, NoThreadFreeError
from airflow_provider_incremental.sources.sql_values import plain

__all__ = ["EngineReader"]

Result = TypeVar("Result")
Work = Callable[[sa.engine.Connection], Result]

_DRIVER_TIMEOUTS = {
    "mysqldb": ("connect_timeout", "read_timeout"),
    "pymysql": ("connect_timeout", "read_timeout"),
    "pymssql": ("login_timeout", "timeout"),
}
_GRACE = 2.0  # for a server that stops the query itself, so that it is the server that says so


class EngineReader:
    """Reads one database for any number of sources.

    :param engine: asked for at first, and again after the database could not be reached or refused the login. Its pool
        has to be SQLAlchemy's ``NullPool``: a connection serves one call and is closed.
    :param timeout: seconds for one call. MySQL and MariaDB stop the query themselves; of another database the thread
        goes on until the driver gives up.
    :param threads: at most so many calls at once; when that many hang, the others are refused.
    """

    def __init__(
        self, *, engine: Callable[[], Awaitable[sa.engine.Engine]], timeout: float = 60.0, threads: int = 4
    ) -> None:
        self._make_engine = engine
        self._engine: sa.engine.Engine | None = None
        self._timeout = timeout
        self._calls = BlockingCalls(name="incremental-sql", limit=threads)
        self._place = EnginePlace(None, timeout=timeout)
        self._turns: dict[tuple[Statement | TextClause, ...], JoinedCalls[Sequence[Sequence[Sequence[Any]]]]] = {}

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now: names and keys from the catalogue, types from a row."""
        return await self._call(str(selection), lambda connection: describe(connection, selection, str(self._place)))

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant."""

        def fetch(connection: sa.engine.Connection) -> Sequence[Sequence[Any]]:
            rows = connection.execute(statement, dict(parameters)).fetchall()
            return [tuple(map(plain, row)) for row in rows]

        return await self._call("the query", fetch)

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection."""
        joined = self._turns.get(statements)
        if joined is None:
            joined = self._turns[statements] = JoinedCalls(lambda: self._in_turn(statements), apart=STALE)
        return await joined()

    async def _in_turn(self, statements: Sequence[Statement | TextClause]) -> Sequence[Sequence[Sequence[Any]]]:
        def fetch(connection: sa.engine.Connection) -> Sequence[Sequence[Sequence[Any]]]:
            return [_all_rows(connection.execute(statement)) for statement in statements]

        return await self._call("the open transactions", fetch)

    async def aclose(self) -> None:
        """Let go of the engine; what hangs in a thread ends by itself."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    async def _call(self, what: str, work: Work[Result]) -> Result:
        if self._engine is None:
            self._engine = await self._make_engine()
            _bound_by_driver(self._engine, self._timeout + _GRACE)
            self._place = EnginePlace(self._engine.url, timeout=self._timeout)
        call = _Call(self._engine, work, self._place, what, self._timeout)
        try:
            return await self._calls.run(call.run, seconds=self._timeout + _GRACE, give_up=call.interrupt)
        except (TimeoutError, NoThreadFreeError) as error:
            raise self._place.no_answer(what, error) from error
        except sa.exc.SQLAlchemyError as error:
            self._engine = None
            raise self._place.cannot_connect(error) from error


def _all_rows(result: Any) -> Sequence[Sequence[Any]]:
    return [tuple(map(plain, row)) for row in result] if result.returns_rows else ()


def _bound_by_driver(engine: sa.engine.Engine, seconds: float) -> None:
    """Let a driver that can give up by itself do so, and free its thread, when the network swallows everything."""
    names = _DRIVER_TIMEOUTS.get(engine.dialect.driver, ())

    def connect(_dialect: object, _record: object, _arguments: object, options: dict[str, Any]) -> None:
        for name in names:
            options.setdefault(name, math.ceil(seconds))

    sa.event.listen(engine, "do_connect", connect)


class _Call:
    """One piece of work on a connection of its own, as a thread runs it."""

    def __init__(
        self, engine: sa.engine.Engine, work: Work[Any], place: EnginePlace, what: str, timeout: float
    ) -> None:
        self._engine = engine
        self._work = work
        self._place = place
        self._what = what
        self._timeout = timeout
        self._driver: Any = None

    def run(self) -> Any:
        """Connect, work, and close the connection.

        :raises SourceError: when the query fails; what SQLAlchemy raises when connecting is left as it is.
        """
        with self._engine.connect() as connection:
            self._driver = connection.connection.dbapi_connection
            try:
                _prepare(connection, self._timeout)
                return self._work(connection)
            except SourceError:
                raise
            except Exception as error:
                raise self._place.cannot_read(self._what, error) from error
            finally:
                self._driver = None

    def interrupt(self) -> None:
        """Tell the driver to stop, where it can be told by another thread."""
        stop = getattr(self._driver, "interrupt", None)
        if stop is not None:
            stop()


def _prepare(connection: sa.engine.Connection, timeout: float) -> None:
    dialect: Any = connection.dialect
    if dialect.name not in ("mysql", "mariadb"):
        return
    # A TIMESTAMP comes in the session's zone: in UTC, no change of a zone's clock ever moves one behind another.
    connection.exec_driver_sql("SET time_zone = '+00:00'")
    # Nothing is written here; and who waits for open transactions need not wait for those that only read.
    connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
    if dialect.is_mariadb:
        connection.exec_driver_sql(f"SET max_statement_time = {timeout:.3f}")
    else:
        connection.exec_driver_sql(f"SET max_execution_time = {round(timeout * 1000)}")
