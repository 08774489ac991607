"""The connections to one PostgreSQL: a pool, and one connection of it that is kept at hand between short queries.

What is true at every ``await``: the connection at hand is here, or in the hands of whoever took it, never both; and it
is kept only while nobody waits for the pool.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any

import asyncpg

from airflow_provider_incremental.sources.sql_postgres_errors import PostgresPlace
from airflow_provider_incremental.sources.sql_readers import APPLICATION

__all__ = ["ConnectArguments", "PostgresPool", "attributes_of"]

ConnectArguments = Mapping[str, Any]
"""What :func:`asyncpg.connect` takes: ``host``, ``port``, ``user``, ``password``, ``database``, ``ssl``, ..."""

_CLOSING = 5.0
_KEPT = 300.0  # seconds without use, after which a network may have forgotten a connection
_FAILURES = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError, OverflowError)


class PostgresPool:
    """Lends connections, and says in our words what goes wrong with them.

    :param arguments: asked for whenever the pool is opened: at first, and after the server could not be reached or
        refused the login.
    :param timeout: seconds for getting a connection.
    :param size: at most so many connections at once.
    """

    def __init__(self, *, arguments: Callable[[], Awaitable[ConnectArguments]], timeout: float, size: int) -> None:
        self.place = PostgresPlace({}, timeout=timeout)
        self._arguments = arguments
        self._timeout = timeout
        self._size = size
        self._opening = asyncio.Lock()
        self._pool: Any = None
        self._ask_again = False
        self._spare: Any = None
        self._since = 0.0
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def lend(self, what: str) -> AsyncGenerator[Any, None]:
        """Lend a connection.

        :param what: what is read with it, for messages.
        """
        connection = self._taken() or await self._acquired()
        try:
            yield connection
        except BaseException as error:
            await self._release(connection)
            if not isinstance(error, _FAILURES):
                raise
            told = self.place.cannot_read(what, error)
            if told is error:
                raise
            raise told from error
        if self._pool is not None and self._spare is None and not self._waiting:
            self._spare, self._since = connection, asyncio.get_running_loop().time()
        else:
            await self._release(connection)

    async def aclose(self) -> None:
        """Close every connection; queries that run are cut off after a few seconds."""
        pool, spare = self._pool, self._spare
        self._pool = self._spare = None
        if pool is None:
            return
        with contextlib.suppress(TimeoutError):  # then the pool has cut them off
            async with asyncio.timeout(_CLOSING):
                if spare is not None:
                    await self._release(spare, pool)
                await pool.close()

    def _taken(self) -> Any:
        """Return the connection at hand, if there is a good one: the pool's ways cost as much as a short query."""
        connection, self._spare = self._spare, None
        if connection is None:
            return None
        idle = asyncio.get_running_loop().time() - self._since
        # One that the server has ended was given back to the pool by asyncpg, and refuses even to be asked.
        with contextlib.suppress(asyncpg.InterfaceError):
            if not (connection.is_closed() or self._ask_again or idle > _KEPT):
                return connection
            connection.terminate()  # which gives its place in the pool back
        return None

    async def _acquired(self) -> Any:
        pool = await self._opened()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._timeout):
                return await pool.acquire()
        except _FAILURES as error:
            self._ask_again = True
            raise self.place.cannot_connect(error, busy=_is_busy(pool)) from error
        finally:
            self._waiting -= 1

    async def _release(self, connection: Any, pool: Any = None) -> None:
        # A connection that does not even take a cancellation is dropped; that is no news of the query.
        pool = pool or self._pool
        with contextlib.suppress(*_FAILURES):
            if pool is not None:
                await pool.release(connection, timeout=_CLOSING)
                return
            async with asyncio.timeout(_CLOSING):  # asyncpg's own does not count until its cancellation is sent
                await connection.close(timeout=_CLOSING)

    async def _opened(self) -> Any:
        async with self._opening:
            if self._pool is None or self._ask_again:
                await self._open_with(dict(await self._arguments()))
            return self._pool

    async def _open_with(self, arguments: dict[str, Any]) -> None:
        self.place = PostgresPlace(arguments, timeout=self._timeout)
        settings = {"application_name": APPLICATION, **arguments.get("server_settings", {})}
        arguments = {"timeout": self._timeout, **arguments, "server_settings": settings}
        if self._pool is None:
            sizes = {"min_size": 0, "max_size": self._size}
            self._pool = await asyncpg.create_pool(**arguments, **sizes, init=_prepare, reset=_leave)
        else:
            self._pool.set_connect_args(**arguments)
        self._ask_again = False


async def attributes_of(connection: Any, query: str, within: float) -> Any:
    """Return what asyncpg tells of the columns of a query, within so many seconds.

    It looks at whole types, and refuses a range or a composite type of what is read from text. A connection on which
    this fails goes on with the binary form, which is as exact.
    """
    async with asyncio.timeout(within):
        try:
            return (await connection.prepare(query)).get_attributes()
        except asyncpg.UnsupportedClientFeatureError:
            await connection.reset_type_codec("numeric", schema="pg_catalog")
            attributes = (await connection.prepare(query)).get_attributes()
            await _prepare(connection)
            return attributes


async def _prepare(connection: Any) -> None:
    """Have ``numeric`` read from the server's text: exact too, in two thirds of the time of the binary form."""
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=Decimal, format="text")


async def _leave(connection: Any) -> None:
    """Spend no round trip on a connection that is given back: queries leave nothing to reset."""


def _is_busy(pool: Any) -> bool:
    return bool(pool.get_size() >= pool.get_max_size() and not pool.get_idle_size())
