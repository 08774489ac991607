"""Triggers that stop at a point between two steps of the order of things, for the test to kill their process there.

Each reports the point by making a file, once; after the restart it runs on.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from airflow_provider_incremental import SQLIncrementalQueryTrigger

POINTS = Path(os.environ["ACCEPTANCE_POINTS"])


async def stop_once(point: str) -> None:
    """Say that the point is reached, and never come back; the second time, pass."""
    reached = POINTS / f"{point}.reached"
    if not reached.exists():
        reached.touch()
        await asyncio.Event().wait()


def stop_the_process_once(point: str) -> None:
    """Say that the point is reached, and block the event loop, so that nothing can hand the event over."""
    reached = POINTS / f"{point}.reached"
    if not reached.exists():
        reached.touch()
        while True:
            time.sleep(1)


class StopsAfterCommit(SQLIncrementalQueryTrigger):
    """Stops when a batch is committed and not yet announced."""

    async def persist_watermark(self, watermark, found, report):
        """Commit, and stop."""
        moved = await super().persist_watermark(watermark, found, report)
        if found.size:
            await stop_once("committed")
        return moved


class StopsAfterYield(SQLIncrementalQueryTrigger):
    """Stops when the event is in Airflow's hands, and has not been stored yet: in ack mode, and without it."""

    async def filter_shared_stream(self, shared_stream):
        """Yield the event, and stop."""
        async for event in super().filter_shared_stream(shared_stream):
            yield event
            stop_the_process_once("yielded")

    async def run(self):
        """Yield the event, and stop."""
        async for event in super().run():
            yield event
            stop_the_process_once("yielded")
