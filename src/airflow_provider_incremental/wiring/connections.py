"""From an Airflow connection to what a source reads with. The hooks are loaded when they are needed: they are heavy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
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
from airflow_provider_incremental.wiring.lookup import alook_up

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = ["TLS_EXTRAS", "ConnectionReader", "S3ClientFactory", "asyncpg_arguments", "named_extras", "reader_of"]

_AWS_DEFAULT = "aws_default"
TLS_EXTRAS = ("sslmode", "sslrootcert", "sslcert", "sslkey")

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

    The connection is looked up at the first use, and all sources of one connection share what it leads to.

    :param conn_id: the connection.
    """

    def __init__(self, *, conn_id: str) -> None:
        self._conn_id = conn_id
        self._reader: SqlReader | None = None

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now."""
        return await (await self._opened()).describe(selection)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant."""
        return await (await self._opened()).fetch(statement, parameters)

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection."""
        return await (await self._opened()).fetch_in_turn(*statements)

    async def aclose(self) -> None:
        """Give the shared reader back."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.aclose()

    async def _opened(self) -> SqlReader:
        if self._reader is None:
            kind = (await alook_up(self._conn_id, "conn_id")).conn_type
            make = partial(_reader, kind, partial(alook_up, self._conn_id, "conn_id"))
            self._reader = _readers.lease(self._conn_id, make)
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
    try:
        hook = connection.get_hook()
    except AirflowException as error:
        msg = (
            f"conn_id={connection.conn_id!r} is a connection of type {connection.conn_type!r}, which Airflow does not "
            f"know here ({error}); install the provider that brings it, as apache-airflow-providers-mysql, where "
            "triggers and tasks run"
        )
        raise SourceError(msg) from error
    if not hasattr(hook, "get_sqlalchemy_engine"):
        msg = (
            f"conn_id={connection.conn_id!r} is a connection of type {connection.conn_type!r}, which is no SQL "
            "database; give one whose hook is a DbApiHook"
        )
        raise SourceError(msg)
    # The reader's threads must not ask Airflow for it again: before 3.2, two at once would mix up their answers.
    hook.get_connection = lambda *_: connection
    return hook.get_sqlalchemy_engine(engine_kwargs={"poolclass": NullPool})
