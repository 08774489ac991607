"""One connection that is kept at hand between statements of the driver: the pool's ways cost more than they do."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.stores.sql.engine import RECYCLE

__all__ = ["Spare", "driver_of"]


def driver_of(connection: AsyncConnection) -> Any:
    """Return the driver's own connection of one that is connected."""
    if connection.sync_connection is None:
        raise AssertionError
    return connection.sync_connection.connection.driver_connection


class Spare:
    """At most one connection, taken from the pool and not given back while it is good. Who finds none asks the pool.

    What is true at every ``await``: the connection is here or in the hands of whoever took it, never both.
    """

    def __init__(self) -> None:
        self._connection: AsyncConnection | None = None
        self._known: AsyncConnection | None = None
        self._since = 0.0
        self._closed = False

    @property
    def held(self) -> int:
        """How many connections are here."""
        return 0 if self._connection is None else 1

    async def take(self) -> AsyncConnection | None:
        """Return the connection, if there is a good one."""
        connection, self._connection = self._connection, None
        if connection is None:
            return None
        if driver_of(connection).is_closed():
            await connection.invalidate()
        elif asyncio.get_running_loop().time() - self._since < RECYCLE:
            return connection
        await connection.close()
        return None

    async def give(self, connection: AsyncConnection) -> None:
        """Keep a connection that was used, or give it back to the pool."""
        if self._closed:
            await connection.invalidate()  # its pool was closed without it, and will not be again
        if self._closed or self._connection is not None or connection.invalidated:
            await connection.close()
            return
        if connection is not self._known:
            self._known, self._since = connection, asyncio.get_running_loop().time()
        self._connection = connection

    async def close(self) -> None:
        """Give the connection back, and keep none any more."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
