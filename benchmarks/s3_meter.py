"""What one piece of work costs a process: time, processor time, memory, and how long the event loop stood still.

The loop's longest block is measured in processor time of its thread as well as by the clock: on a machine with other
work to do, the clock also counts what that took.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

__all__ = ["Cost", "looped", "measured"]

_BEAT = 0.001


@dataclass(slots=True)
class Cost:
    """Seconds by the clock and of the processor, growth of the peak of memory in MB, longest blocks in ms."""

    wall: float = 0.0
    cpu: float = 0.0
    peak_mb: float = 0.0
    block_ms: float = 0.0
    block_wall_ms: float = 0.0
    requests: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure what runs inside."""
    cost, wall, cpu, peak = Cost(), time.monotonic(), time.process_time(), _peak_mb()
    yield cost
    cost.wall, cost.cpu, cost.peak_mb = time.monotonic() - wall, time.process_time() - cpu, _peak_mb() - peak


@asynccontextmanager
async def looped() -> AsyncIterator[Cost]:
    """Measure what runs inside, and the loop: how late a task is that wants to run every millisecond."""
    gc.collect()  # what start-up left behind is not the work's
    with measured() as cost:
        watch = asyncio.create_task(_watch(cost))
        await asyncio.sleep(0)
        try:
            yield cost
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch


async def _watch(cost: Cost) -> None:
    while True:
        wall, cpu = time.monotonic(), time.thread_time()
        await asyncio.sleep(_BEAT)
        cost.block_ms = max(cost.block_ms, (time.thread_time() - cpu) * 1000)
        cost.block_wall_ms = max(cost.block_wall_ms, (time.monotonic() - wall - _BEAT) * 1000)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
