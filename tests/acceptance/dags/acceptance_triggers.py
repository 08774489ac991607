"""Triggers that stop at a point between two steps of the order of things, for the test to kill their process there.

Each reports the point by making a file, once; after the restart it runs on.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from airflow_provider_incremental import SQLIncrementalQueryTrigger

POINTS = Path(os.environ["ACCEPTANCE_POINTS"])


async def stop_once(point: str) -> None:
    """Say that the point is reached, and never come back; the second time, pass."""
    reached = POINTS / f"{point}.reached"
    if not reached.exists():
        reached.touch()
        await asyncio.Event().wait()


class StopsAfterCommit(SQLIncrementalQueryTrigger):
    """Stops when a batch is committed and not yet announced."""

    async def persist_watermark(self, watermark, found, report):
        """Commit, and stop."""
        moved = await super().persist_watermark(watermark, found, report)
        if found.size:
            await stop_once("committed")
        return moved


class StopsAfterYield(SQLIncrementalQueryTrigger):
    """Stops when the event is in Airflow's hands, and has not been stored yet."""

    async def filter_shared_stream(self, shared_stream):
        """Yield the event, and stop the whole event loop: nothing of the process goes on that could store it."""
        async for event in super().filter_shared_stream(shared_stream):
            yield event
            reached = POINTS / "yielded.reached"
            if not reached.exists():
                reached.touch()
                while True:  # blocks the loop, so that the runner cannot hand the event over
                    (POINTS / "never").exists()
