"""From an Airflow connection to the notifications of a PostgreSQL channel; one session a connection and process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_listen import PostgresNotifications, Subscription
from airflow_provider_incremental.sources.sql_source import Notifications
from airflow_provider_incremental.wiring.connection_watch import ConnectionWatch
from airflow_provider_incremental.wiring.connections import WATCHES, asyncpg_arguments

__all__ = ["ConnectionNotifications"]


@dataclass(slots=True)
class _Shared:
    session: PostgresNotifications
    users: int = 0


# By the number of the connection as it was found: who listens where it led before goes on there until his next poll.
_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Shared]] = WeakKeyDictionary()


class ConnectionNotifications(Notifications):
    """News of one channel of an Airflow connection's database.

    :param conn_id: the connection.
    :param channel: what ``NOTIFY`` names.
    """

    def __init__(self, *, conn_id: str, channel: str) -> None:
        self._conn_id = conn_id
        self._channel = channel
        self._watch: ConnectionWatch | None = None
        self._number = 0
        self._shared: _Shared | None = None
        self._subscription: Subscription | None = None

    @property
    def trouble(self) -> str | None:
        """What keeps the channel from being heard at present, in one line."""
        return None if self._shared is None else self._shared.session.trouble

    async def open(self) -> None:
        """Begin to listen; again is harmless.

        :raises SourceError: when the connection is not one of PostgreSQL.
        """
        if self._watch is None:
            self._watch = WATCHES.lease(self._conn_id)
        known = await self._watch.known()
        if self._number == known.number:
            return
        kind = known.connection.conn_type
        if kind != "postgres":
            msg = (
                f"listen={self._channel!r}: conn_id={self._conn_id!r} is a connection of type {kind!r}, and only "
                "PostgreSQL notifies; leave listen out, and polls find what is new"
            )
            raise SourceError(msg)
        sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
        if known.number not in sessions:
            sessions[known.number] = _Shared(PostgresNotifications(arguments=partial(_arguments, self._watch)))
        left = self._left()
        self._number, self._shared = known.number, sessions[known.number]
        self._shared.users += 1
        self._subscription = self._shared.session.subscribe(self._channel)
        await left

    async def news(self) -> None:
        """Wait until there may be something new since the last return."""
        if self._subscription is None:
            await self.open()
        if self._subscription is not None:
            await self._subscription.news()

    async def aclose(self) -> None:
        """Give the session back; the last one closes it."""
        watch, self._watch = self._watch, None
        if watch is not None:
            WATCHES.release(self._conn_id)
        await self._left()

    def _left(self) -> Awaitable[None]:
        """Leave where this one listens; what is returned waits until that is closed."""
        number, self._number = self._number, 0
        shared, self._shared = self._shared, None
        subscription, self._subscription = self._subscription, None
        if shared is None or subscription is None:
            return _nothing()
        subscription.tell()  # whoever waits for news from there
        shared.session.unsubscribe(subscription)
        shared.users -= 1
        if shared.users:
            return _nothing()
        del _sessions[asyncio.get_running_loop()][number]
        return shared.session.aclose()


async def _nothing() -> None:
    pass


async def _arguments(watch: ConnectionWatch) -> Mapping[str, Any]:
    return asyncpg_arguments(await watch.asked())
