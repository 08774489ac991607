"""PostgreSQL's notifications: one session a process and connection that listens, and tells its subscribers.

A notification only says that there may be something new: what is missed while the session is broken is found by polls.
What is true at every ``await``: a subscriber whose channel began to be listened to, for the first time or again, has
been told so once since then, so that nothing notified in between waits for the next poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop
from airflow_provider_incremental.sources.sql_postgres import ConnectArguments
from airflow_provider_incremental.sources.sql_postgres_errors import PostgresPlace

__all__ = ["PostgresNotifications", "Subscription"]

_APPLICATION = "airflow-provider-incremental (listen)"
_KEEPALIVE = 30.0
_FIRST_RETRY = 1.0
_LONGEST_RETRY = 60.0
_IS_LISTENING = "SELECT count(*) FROM pg_catalog.pg_listening_channels() AS c WHERE c = ANY ($1::text[])"


class Subscription:
    """One subscriber's ear on a channel."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.session: object = None
        self._news = asyncio.Event()

    def tell(self) -> None:
        """Note that there may be something new."""
        self._news.set()

    async def news(self) -> None:
        """Wait until there may be something new since the last return; nothing is lost when this is cancelled."""
        await self._news.wait()
        self._news.clear()


class PostgresNotifications:
    """Listens on the channels of all subscribers with one session, and opens it again when it breaks.

    :param arguments: asked for whenever the session is opened, so that a connection that was corrected is used.
    :param keepalive: seconds between two questions whether the session still listens; a network that swallows
        everything, or a pooler that lends sessions by transaction, is found by it.
    :param timeout: seconds for connecting, and for each answer.
    """

    def __init__(
        self,
        *,
        arguments: Callable[[], Awaitable[ConnectArguments]],
        keepalive: float = _KEEPALIVE,
        timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        self._arguments = arguments
        self._keepalive = keepalive
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._subscriptions: set[Subscription] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._trouble = Trouble("notifications of PostgreSQL")

    @property
    def trouble(self) -> str | None:
        """What keeps the session from listening at present, in one line."""
        return self._trouble.of("listening")

    def subscribe(self, channel: str) -> Subscription:
        """Return a subscription; the session opens with the first one."""
        subscription = Subscription(channel)
        self._subscriptions.add(subscription)
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._listen_for_ever(), name="incremental-listen")
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Forget a subscription."""
        self._subscriptions.discard(subscription)
        self._changed.set()

    async def aclose(self) -> None:
        """Close the session."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen_for_ever(self) -> None:
        retry = _FIRST_RETRY
        while True:
            began = self._clock.monotonic()
            try:
                await self._listen()
            except (Exception, asyncio.CancelledError) as error:
                if told_to_stop(error):
                    raise
                self._trouble.begins("listening", error)
            if self._clock.monotonic() - began > _LONGEST_RETRY:
                retry = _FIRST_RETRY
            await self._clock.sleep(retry)
            retry = min(retry * 2, _LONGEST_RETRY)

    async def _listen(self) -> None:
        """Open a session and listen until it breaks.

        :raises SourceError: when it cannot be opened, or has broken.
        """
        arguments = {"timeout": self._timeout, **await self._arguments()}
        settings = {"application_name": _APPLICATION, **arguments.get("server_settings", {})}
        place = PostgresPlace(arguments, timeout=self._timeout)
        try:
            connection = await asyncpg.connect(**{**arguments, "server_settings": settings})
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, ValueError) as error:
            raise place.cannot_connect(error, busy=False) from error
        try:
            await self._serve(connection, place)
        except TimeoutError as error:
            msg = f"{place}: the session that listens had no answer within {self._timeout:g} s"
            raise SourceError(msg) from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            raise place.cannot_read("notifications", error) from error
        finally:
            # Without asking the server: a network that swallows everything would swallow that as well.
            connection.terminate()

    async def _serve(self, connection: Any, place: PostgresPlace) -> None:
        lost = asyncio.Event()

        def end(_: object) -> None:
            lost.set()
            self._changed.set()

        connection.add_termination_listener(end)
        listening: set[str] = set()
        while not lost.is_set():
            self._changed.clear()
            # Not asyncpg's own limit, which waits until a cancellation has arrived.
            async with asyncio.timeout(self._timeout):
                await self._follow(connection, listening)
                asked = await connection.fetchval(_IS_LISTENING, sorted(listening))
            if asked != len(listening):
                msg = (
                    f"{place} does not keep listening: a pooler lends its sessions by transaction; give listen= a "
                    "connection to the server itself, or one that is pooled by session"
                )
                raise SourceError(msg)
            self._trouble.ends("listening")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._keepalive):
                    await self._changed.wait()
        msg = f"{place}: the session that listens was closed"
        raise SourceError(msg)

    async def _follow(self, connection: Any, listening: set[str]) -> None:
        """Listen on the channels that have subscribers, and on no others."""
        wanted = {subscription.channel for subscription in self._subscriptions}
        for channel in wanted - listening:
            await connection.add_listener(channel, self._notified)
        for channel in listening - wanted:
            await connection.remove_listener(channel, self._notified)
        for subscription in self._subscriptions:
            if subscription.session is not connection:
                subscription.session = connection
                subscription.tell()
        listening.clear()
        listening.update(wanted)

    def _notified(self, _connection: Any, _process: int, channel: str, _payload: object) -> None:
        for subscription in self._subscriptions:
            if subscription.channel == channel:
                subscription.tell()
