"""How long the event loop had to wait in one go, as a share of the work: it is the same on a slow machine."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator


class LoopShare:
    """What a task that asks for a turn all the time has seen."""

    def __init__(self) -> None:
        self.turns = 0
        self._began = self._last = time.process_time()
        self._longest = 0.0

    def turn(self) -> None:
        """Note that the event loop got round to this."""
        now = time.process_time()
        self.turns += 1
        self._longest, self._last = max(self._longest, now - self._last), now

    @property
    def longest(self) -> float:
        """The longest that this process worked without giving the loop a turn, of all that it worked: 1 for no turn."""
        whole = time.process_time() - self._began
        return max(self._longest, time.process_time() - self._last) / whole


@contextlib.asynccontextmanager
async def loop_share() -> AsyncIterator[LoopShare]:
    """Measure what is done within; what this process works counts, in any thread, and not what the machine does."""
    # A full collection looks at everything in the process, whoever it belongs to.
    gc.disable()
    try:
        share = LoopShare()

        async def tick() -> None:
            while True:
                share.turn()
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.001)
        try:
            yield share
        finally:
            ticking.cancel()
    finally:
        gc.enable()
