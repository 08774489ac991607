"""Time, passed in: what waits or stamps gets a clock, so that tests decide what time it is."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from typing import Any, Protocol

__all__ = ["Clock", "SystemClock", "sleep_unless"]


class Clock(Protocol):
    """What the order of things needs to know of time."""

    def now(self) -> dt.datetime:
        """Return the present instant, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards, from an arbitrary start."""

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""


class SystemClock:
    """This machine's clock."""

    def now(self) -> dt.datetime:
        """Return the present instant, aware, in UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Return seconds that never go backwards, from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that many seconds, letting everything else in the event loop run."""
        await asyncio.sleep(seconds)


async def sleep_unless(clock: Clock, seconds: float, over: asyncio.Future[Any]) -> None:
    """Wait that many seconds by the clock, or until the future is done; what became of it is for the caller to see."""
    awake = False

    def wake(_: object) -> None:
        if not awake:  # what was done in the same moment as the sleep calls all the same
            sleep.reschedule(0)  # a time that has passed: the sleep ends here

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as sleep:
            over.add_done_callback(wake)
            try:
                await clock.sleep(seconds)
            finally:
                awake = True
                over.remove_done_callback(wake)
