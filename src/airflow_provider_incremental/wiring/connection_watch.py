"""Airflow connections that are in use: looked up again now and then, once for all who use one in a process.

What is true at every ``await``: of one connection at most one look-up is under way; what was known of it stays in use
until Airflow has said twice that it is gone, or once while its database does not answer. A look-up that fails for
another reason, or hangs, changes nothing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop
from airflow_provider_incremental.wiring.lookup import alook_up

if TYPE_CHECKING:
    from airflow.sdk import Connection

__all__ = ["ConnectionWatch", "Known", "SharedWatches"]

AGAIN = 60.0
"""Seconds between two look-ups of a connection that is there."""

_UNSURE = 20.0  # seconds until Airflow is asked again whether a connection is really gone
_PATIENCE = 5.0

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Known:
    """A connection as it was found.

    :param number: another one for each change of anything in it.
    """

    connection: Connection
    number: int

    @property
    def address(self) -> tuple[object, ...]:
        """Where it leads, whoever logs in there."""
        found = self.connection
        return found.conn_type, found.host, found.port, found.schema, found.extra

    def is_still(self, found: Connection) -> bool:
        """Whether another look-up found the same."""
        old = self.connection
        return (*self.address, old.login, old.password) == (*Known(found, 0).address, found.login, found.password)


class ConnectionWatch:
    """What is known of one connection.

    :param name: what the log calls it.
    :param look_up: asks Airflow; raises :class:`ConfigurationError` where there is no such connection.
    :param patience: seconds for which a poll waits for a look-up, before it goes on with what is known.
    """

    def __init__(
        self, name: str, look_up: Callable[[], Awaitable[Connection]], *, clock: Clock, patience: float = _PATIENCE
    ) -> None:
        self._trouble = Trouble(name)
        self._look_up = look_up
        self._clock = clock
        self._patience = patience
        self._known: Known | None = None
        self._missing: ConfigurationError | None = None
        self._missed = 0
        self._failure: Exception | None = None
        self._due = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._give_up = 0.0

    async def known(self) -> Known:
        """Return the connection, looked up again when it is time.

        :raises ConfigurationError: when there is none, or none any more.
        """
        if self._clock.monotonic() >= self._due:
            self._begin()
        await self._wait()
        if self._known is None or (self._missing is not None and self._missed > 1):
            raise self._said()
        return self._known

    async def asked(self) -> Connection:
        """Return the connection as Airflow has it now, for who cannot reach its database.

        :raises ConfigurationError: when there is none any more.
        """
        self._begin()
        await self._wait()
        if self._known is None or self._missing is not None:
            raise self._said()
        return self._known.connection

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._task is not None:
            self._task.cancel()

    def _said(self) -> Exception:
        # A new one for each who is told: an exception that is raised again and again collects all that it passed.
        if self._missing is not None:
            return ConfigurationError(str(self._missing))
        return self._failure or ConnectionError("Airflow did not tell the connection in time")

    def _begin(self) -> None:
        if self._task is None:
            self._give_up = self._clock.monotonic() + self._patience
            self._task = asyncio.create_task(self._look(), name="incremental-connection")

    async def _wait(self) -> None:
        if self._task is None:
            return
        if self._known is None:
            await asyncio.wait([self._task])
        else:
            await asyncio.wait([self._task], timeout=max(self._give_up - self._clock.monotonic(), 0.0))

    async def _look(self) -> None:
        again = AGAIN
        try:
            with contained():
                self._found(await self._look_up())
        except ConfigurationError as error:
            self._missing, self._missed = error, self._missed + 1
            self._trouble.begins("look-up", error)
            # Once it is gone, each poll asks: it fails, and so comes ever more rarely.
            again = 0.0 if self._missed > 1 or self._known is None else _UNSURE
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            self._failure = error if isinstance(error, Exception) else ConnectionError(describe(error))
            self._trouble.begins("look-up", error)
            again = 0.0 if self._known is None else AGAIN
        finally:
            self._due = self._clock.monotonic() + again
            self._task = None

    def _found(self, connection: Connection) -> None:
        self._missing, self._missed, self._failure = None, 0, None
        self._trouble.ends("look-up")
        if self._known is None or not self._known.is_still(connection):
            self._known = Known(connection, next(_numbers))


@dataclass(slots=True)
class _Shared:
    watch: ConnectionWatch
    users: int = 0


class SharedWatches:
    """The connections in use in this process. Each belongs to the event loop in which it was first asked for.

    :param look_up: asks Airflow for a connection; called with its id and the parameter that names it.
    """

    def __init__(
        self,
        look_up: Callable[[str, str], Awaitable[Connection]] = alook_up,
        *,
        clock: Clock | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._look_up = look_up
        self._clock = clock or SystemClock()
        self._patience = patience
        self._watches: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()

    def lease(self, conn_id: str) -> ConnectionWatch:
        """Return the watch of a connection for one more user, who gives it back with :meth:`release`."""
        watches = self._watches.setdefault(asyncio.get_running_loop(), {})
        if conn_id not in watches:
            look_up = partial(self._look_up, conn_id, "conn_id")
            name = f"connection {conn_id!r}"
            watch = ConnectionWatch(name, look_up, clock=self._clock, patience=self._patience)
            watches[conn_id] = _Shared(watch)
        watches[conn_id].users += 1
        return watches[conn_id].watch

    def release(self, conn_id: str) -> None:
        """Take note that a user has gone; with the last one, nothing is known any more."""
        watches = self._watches[asyncio.get_running_loop()]
        watches[conn_id].users -= 1
        if watches[conn_id].users == 0:
            watches.pop(conn_id).watch.close()
