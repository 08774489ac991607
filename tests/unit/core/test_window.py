"""The window of what was delivered: exact whatever comes and goes, and it does not hold up the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.batch import SeenBatch
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.core.window import SeenWindow

KEY = WatermarkKey("objects")
REACH = 10


class Log:
    """A batch log and a source whose window reaches back over ten places."""

    lateness = float(REACH)

    def __init__(self) -> None:
        self.batches: list[SeenBatch] = []

    def add(self, high: int, marks: Sequence[bytes]) -> None:
        self.batches.append(SeenBatch(len(self.batches) + 1, high, tuple(marks)))

    async def seen(self, key: WatermarkKey, after: int, before: int | None, limit: int) -> list[SeenBatch]:
        found = [each for each in self.batches if each.seq > after and (before is None or each.seq < before)]
        return found[::-1][:limit]

    def in_window(self, high: Any, low: Any) -> bool:
        return high >= low - REACH

    def watermark(self, cursor: int, version: int, reread_after: int = 0) -> Watermark:
        last = len(self.batches)
        return Watermark(key=KEY, cursor=cursor, version=version, last_seq=last, reread_after_seq=reread_after)


MARKS = st.lists(st.integers(0, 5).map(lambda number: bytes([number]) * 16), max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), MARKS, st.booleans()), max_size=20))
def test_same_as_looking_at_every_batch(steps):
    """What is known after each move, ours or another's, is what the batches inside the window hold."""

    async def live() -> None:
        log, cursor, version = Log(), 0, 0
        window: Any = SeenWindow(log, log)
        for distance, marks, ours in steps:
            cursor, version = cursor + distance, version + 1
            log.add(cursor, marks)
            watermark = log.watermark(cursor, version)
            if ours:
                window.follow(watermark)
            inside = [each.fingerprints for each in log.batches if log.in_window(each.high, cursor)]
            assert set(await window.load(watermark)) == {mark for marks in inside for mark in marks}

    asyncio.run(live())


async def test_a_million_fingerprints_do_not_hold_up_the_loop():
    """Loading a window of a million, polling in it, and leaving it behind holds nobody up: it goes batch by batch."""
    log = Log()
    for number in range(1000):
        log.add(number % REACH, [(number * 1000 + each).to_bytes(16) for each in range(1000)])
    window: Any = SeenWindow(log, log)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - began)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    assert len(await window.load(log.watermark(REACH, 1))) == 1_000_000
    for cursor in (REACH, 3 * REACH):
        found = await window.load(log.watermark(cursor, 1))
    assert not found
    watching.cancel()
    assert longest < 0.25  # of processor time, on a machine with other work to do; united anew each time: seconds
