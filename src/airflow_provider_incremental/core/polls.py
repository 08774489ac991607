"""Polls in a task of their own, one at a time: one that takes long, or never ends, holds up no announcement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from airflow_provider_incremental.core.clock import Clock, sleep_unless
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import describe

__all__ = ["LONGEST_POLL", "Polls"]

log = logging.getLogger(__name__)

LONGEST_POLL = 6 * 3600.0
"""Seconds after which a poll is broken off, to be tried again as after any error."""

_LAST_WORDS = 5.0
"""Seconds that a poll has to end, by the real clock, when it is told to."""


class Polls:
    """At most one poll at a time. As a context it ends the one that is under way when it is left.

    :param poll: a poll with all that belongs to it; what it raises comes out of :meth:`wait`.
    """

    def __init__(self, poll: Callable[[], Coroutine[Any, Any, None]], clock: Clock) -> None:
        self._poll = poll
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0

    async def __aenter__(self) -> Self:
        """Begin; nothing polls yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Poll no more."""
        await self.end()

    @property
    def under_way(self) -> bool:
        """Whether a poll began whose end nobody has waited for."""
        return self._task is not None

    def begin(self) -> None:
        """Begin a poll; none may be under way."""
        self._began = self._clock.monotonic()
        self._task = asyncio.create_task(self._run())

    async def wait(self, seconds: float) -> None:
        """Wait until the poll has ended, at most that long.

        :raises SourceError: when it took too long, or something that it called cancelled it.
        """
        left = LONGEST_POLL - (self._clock.monotonic() - self._began)
        if self._task is None:
            return
        if left <= 0 and not self._task.done():
            await self.end()
            msg = f"the poll took over {LONGEST_POLL / 3600:.0f} hours and was broken off"
            raise SourceError(msg)
        await sleep_unless(self._clock, min(seconds, left), self._task)
        if self._task.done():
            task, self._task = self._task, None
            if task.cancelled():
                msg = "the poll was cancelled by something that it called"
                raise SourceError(msg)
            task.result()

    async def end(self) -> None:
        """Break off the poll that is under way, if any. One that does not listen is left to itself."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=_LAST_WORDS)
            if not task.done():
                log.warning("a poll was broken off and does not end; it is left to itself")
            elif not task.cancelled() and (error := task.exception()) is not None:
                log.debug("a poll that was broken off ended with %s", describe(error))

    async def _run(self) -> None:
        try:
            await self._poll()
        except SystemExit:  # out of a task it would end the event loop
            with contained():
                raise
