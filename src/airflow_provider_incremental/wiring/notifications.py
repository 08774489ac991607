"""From an Airflow connection to the notifications of a PostgreSQL channel; one session a connection and process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_listen import PostgresNotifications, Subscription
from airflow_provider_incremental.sources.sql_source import Notifications
from airflow_provider_incremental.wiring.connections import asyncpg_arguments
from airflow_provider_incremental.wiring.lookup import alook_up

__all__ = ["ConnectionNotifications"]


@dataclass(slots=True)
class _Shared:
    session: PostgresNotifications
    users: int = 0


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()


class ConnectionNotifications(Notifications):
    """News of one channel of an Airflow connection's database.

    :param conn_id: the connection.
    :param channel: what ``NOTIFY`` names.
    """

    def __init__(self, *, conn_id: str, channel: str) -> None:
        self._conn_id = conn_id
        self._channel = channel
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
        if self._shared is not None:
            return
        kind = (await alook_up(self._conn_id, "conn_id")).conn_type
        if kind != "postgres":
            msg = (
                f"listen={self._channel!r}: conn_id={self._conn_id!r} is a connection of type {kind!r}, and only "
                "PostgreSQL notifies; leave listen out, and polls find what is new"
            )
            raise SourceError(msg)
        sessions = _sessions.setdefault(asyncio.get_running_loop(), {})
        if self._conn_id not in sessions:
            sessions[self._conn_id] = _Shared(PostgresNotifications(arguments=self._arguments))
        self._shared = sessions[self._conn_id]
        self._shared.users += 1
        self._subscription = self._shared.session.subscribe(self._channel)

    async def news(self) -> None:
        """Wait until there may be something new since the last return."""
        await self.open()
        if self._subscription is not None:
            await self._subscription.news()

    async def aclose(self) -> None:
        """Give the session back; the last one closes it."""
        shared, self._shared = self._shared, None
        subscription, self._subscription = self._subscription, None
        if shared is None or subscription is None:
            return
        shared.session.unsubscribe(subscription)
        shared.users -= 1
        if shared.users == 0:
            del _sessions[asyncio.get_running_loop()][self._conn_id]
            await shared.session.aclose()

    async def _arguments(self) -> Mapping[str, Any]:
        return asyncpg_arguments(await alook_up(self._conn_id, "conn_id"))
