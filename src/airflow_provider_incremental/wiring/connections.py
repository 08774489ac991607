"""From an Airflow connection to what a source reads with. The hooks are loaded when they are needed: they are heavy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.elements import TextClause

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.s3_sharing import SharedClients
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_readers import Shape, SqlReader
from airflow_provider_incremental.sources.sql_sharing import SharedReaders
from airflow_provider_incremental.wiring.airflow import AirflowException
from airflow_provider_incremental.wiring.connection_watch import ConnectionWatch, Known, SharedWatches
from airflow_provider_incremental.wiring.lookup import alook_up

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = [
    "TLS_EXTRAS",
    "WATCHES",
    "ConnectionReader",
    "S3ClientFactory",
    "asyncpg_arguments",
    "named_extras",
    "reader_of",
]

_AWS_DEFAULT = "aws_default"
_PACKAGES = {"duckdb": "airflow-provider-duckdb"}
"""By type: providers that are not named as Airflow names its own."""
TLS_EXTRAS = ("sslmode", "sslrootcert", "sslcert", "sslkey")

WATCHES = SharedWatches()
"""The connections that triggers of this process use."""

_readers = SharedReaders()
_clients = SharedClients()


class S3ClientFactory:
    """Gives asynchronous S3 clients of an Airflow connection, by way of the Amazon provider's hook.

    The hook settles credentials, roles, region, endpoint, proxies and retries, as for every operator. All factories of
    one connection and region share one client in a process.

    :param aws_conn_id: the connection; None for what boto finds by itself.
    :param region_name: the region; by default that of the connection.
    """

    def __init__(self, *, aws_conn_id: str | None, region_name: str | None = None) -> None:
        self._aws_conn_id = aws_conn_id
        self._region_name = region_name

    async def __call__(self) -> AbstractAsyncContextManager[Any]:
        """Return the context of one use of the client."""
        return _clients.lease((self._aws_conn_id, self._region_name), self._make)

    async def _make(self) -> AbstractAsyncContextManager[Any]:
        # Without the one that Airflow names by default, the hook goes on with what boto finds by itself.
        if self._aws_conn_id not in (None, _AWS_DEFAULT):
            await alook_up(self._aws_conn_id, "aws_conn_id")
        module = await asyncio.to_thread(import_module, "airflow.providers.amazon.aws.hooks.s3")
        parsers = await asyncio.to_thread(import_module, "airflow_provider_incremental.sources.s3_parser")
        hook = module.S3Hook(aws_conn_id=self._aws_conn_id, region_name=self._region_name)
        get_session = hook.get_session

        # Called in a thread, by the hook, for the session of this client alone.
        def get_listing_session(**arguments: Any) -> Any:
            session = get_session(**arguments)
            parsers.install(session)
            return session

        hook.get_session = get_listing_session
        context: AbstractAsyncContextManager[Any] = await hook.get_async_conn()
        return context


class ConnectionReader(SqlReader):
    """Reads the database of an Airflow connection: PostgreSQL through asyncpg, any other through its hook's engine.

    The connection is looked up at the first use, and again each minute; all sources of one connection share the
    look-ups, and what it leads to. When it leads elsewhere, one call fails, and nothing is read there before the
    selection was described anew: what was learned of the old place holds no more.

    :param conn_id: the connection.
    :param watches: the connections in use.
    """

    def __init__(self, *, conn_id: str, watches: SharedWatches = WATCHES) -> None:
        self._conn_id = conn_id
        self._watches = watches
        self._watch: ConnectionWatch | None = None
        self._known: Known | None = None
        self._reader: SqlReader | None = None
        self._failed = False
        self._moved = False

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now."""
        if self._failed or self._moved:
            self._known, self._moved = None, False
        async with self._opened() as reader:
            return await reader.describe(selection)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant."""
        async with self._opened() as reader:
            return await reader.fetch(statement, parameters)

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection."""
        async with self._opened() as reader:
            return await reader.fetch_in_turn(*statements)

    async def aclose(self) -> None:
        """Give the shared reader back."""
        reader, self._reader, self._known = self._reader, None, None
        watch, self._watch = self._watch, None
        if watch is not None:
            self._watches.release(self._conn_id)
        if reader is not None:
            await reader.aclose()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[SqlReader, None]:
        before, self._failed = self._failed, True
        reader = await self._present()
        if self._moved:
            self._failed = before
            msg = f"the connection {self._conn_id!r} leads elsewhere since it was changed; the next poll reads there"
            raise ConnectionError(msg)
        yield reader
        self._failed = False

    async def _present(self) -> SqlReader:
        if self._watch is None:
            self._watch = self._watches.lease(self._conn_id)
        known = await self._watch.known()
        self._moved = self._moved or (self._known is not None and self._known.address != known.address)
        if self._reader is None or self._known is None or self._known.number != known.number:
            # The old one is closed by its last user, who may be another source that has not looked yet.
            old, self._known = self._reader, known
            make = partial(_reader, known.connection.conn_type, self._watch.asked)
            self._reader = _readers.lease(f"{known.number}:{self._conn_id}", make)
            if old is not None:
                await old.aclose()
        return self._reader


def reader_of(connection: Connection) -> SqlReader:
    """Return a reader of its own for a connection that was looked up already; the caller closes it."""

    async def known() -> Connection:
        return connection

    return _reader(connection.conn_type, known)


def _reader(kind: str | None, look_up: Callable[[], Awaitable[Connection]]) -> SqlReader:
    async def arguments() -> Mapping[str, Any]:
        return asyncpg_arguments(await look_up())

    async def engine() -> Any:
        connection = await look_up()
        return await sync_to_async(_engine_of)(connection)

    return PostgresReader(arguments=arguments) if kind == "postgres" else EngineReader(engine=engine)


def named_extras(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """Return the named extras of a connection. Others do not count: who edits one chooses neither code nor files."""
    extra = connection.extra_dejson
    return {name: str(extra[name]) for name in names if extra.get(name)}


def asyncpg_arguments(connection: Connection) -> dict[str, Any]:
    """Return what :func:`asyncpg.connect` takes for a connection of type ``postgres``."""
    tls = named_extras(connection, TLS_EXTRAS)
    return {
        "host": connection.host,
        "port": connection.port,
        "user": connection.login,
        "password": connection.password,
        "database": connection.schema,
        **({"dsn": f"postgresql:///?{urlencode(tls)}"} if tls else {}),
    }


def _engine_of(connection: Connection) -> Any:
    what = f"conn_id={connection.conn_id!r} is a connection of type {connection.conn_type!r}"
    try:
        hook = connection.get_hook()
    except AirflowException as error:
        packages = _PACKAGES.get(connection.conn_type or "", "as apache-airflow-providers-mysql does for 'mysql'")
        msg = (
            f"{what}, which Airflow does not know here ({error}); install the provider that brings it, {packages}, "
            "where triggers and tasks run"
        )
        raise SourceError(msg) from error
    except AttributeError as error:  # a type without a hook, such as "generic"
        msg = f"{what}, which has no hook; give it the type of its database"
        raise SourceError(msg) from error
    if not hasattr(hook, "get_sqlalchemy_engine"):
        msg = f"{what}, which is no SQL database; give one whose hook is a DbApiHook"
        raise SourceError(msg)
    # The reader's threads must not ask Airflow for it again: before 3.2, two at once would mix up their answers.
    hook.get_connection = lambda *_: connection
    try:
        return hook.get_sqlalchemy_engine(engine_kwargs={"poolclass": NullPool})
    except ModuleNotFoundError as error:
        msg = f"{what}, whose driver is missing ({error}); install it where triggers and tasks run"
        raise SourceError(msg) from error
