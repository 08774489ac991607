"""The window of what was delivered: exact whatever comes and goes, and it does not hold up the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.batch import SeenBatch
from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.core.window import LANDMARK, SeenWindow, StoredMemory

KEY = WatermarkKey("objects")
REACH = 10


class Log:
    """A batch log and a source whose window reaches back over ten places."""

    lateness = float(REACH)

    def __init__(self) -> None:
        self.batches: list[SeenBatch] = []
        self.pieces: dict[str, bytes] = {}
        self.read = 0

    def add(self, high: int, marks: Sequence[bytes]) -> None:
        self.batches.append(SeenBatch(len(self.batches) + 1, high, tuple(marks)))

    async def seen(self, key: WatermarkKey, after: int, before: int | None, limit: int) -> list[SeenBatch]:
        found = [each for each in self.batches if each.seq > after and (before is None or each.seq < before)]
        self.read += len(found[::-1][:limit])
        return found[::-1][:limit]

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        names = sorted(name for name in self.pieces if name.startswith(prefix) and name > after)
        return [(name, self.pieces[name]) for name in names[:limit]]

    def commit(self, window: SeenWindow, high: int, marks: Sequence[bytes], watermark: Watermark) -> Watermark:
        """What a feed does after a poll: append, remember, move."""
        self.pieces |= {name: piece for name, piece in window.noted(Found(high=high)).remember.items() if piece}
        self.add(high, marks)
        moved = self.watermark(high, watermark.version + 1, watermark.reread_after_seq)
        window.follow(moved)
        return moved

    def in_window(self, high: Any, low: Any) -> bool:
        return high >= low - self.lateness

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


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["poll"] * 6 + ["back", "back", "restart", "restart", "reread", "wider"]),
        st.integers(0, 8),
        MARKS,
    ),
    max_size=60,
)


@settings(max_examples=500, deadline=None)
@given(STEPS, st.integers(0, 3))
def test_positions_that_go_back(steps, page):
    """Polls, moves back by hand, restarts and a wider window in any order: what the batches inside the window hold."""

    async def live() -> None:
        log = Log()
        window: Any = SeenWindow(log, log, page=page + 1)
        now = log.watermark(0, 1)
        for what, distance, marks in steps:
            if what == "poll":
                now = log.commit(window, now.cursor + distance, marks, now)
            elif what == "back":
                now = log.watermark(max(now.cursor - 5 * distance, 0), now.version + 1, now.reread_after_seq)
            elif what == "reread":
                now = log.watermark(now.cursor, now.version + 1, now.last_seq)
            else:
                log.lateness += distance if what == "wider" else 0
                window = SeenWindow(log, log, page=page + 1)
            counted = [each for each in log.batches if each.seq > now.reread_after_seq]
            inside = [each for each in counted if log.in_window(each.high, now.cursor)]
            assert set(await window.load(now)) == {mark for each in inside for mark in each.fingerprints}
            assert window.oldest_seq == min([each.seq for each in inside], default=now.last_seq + 1)

    asyncio.run(live())


async def test_a_start_far_below_what_was_delivered_finds_all_of_it():
    """Set back without rereading: behind many batches of before, those beyond them are known, and none is pruned."""
    log = Log()
    for high in (*range(20), *range(5000, 5020), *range(300)):
        log.add(high, [high.to_bytes(16)])
    for high in range(300, 5000, 10):
        log.add(high, [])
    window: Any = SeenWindow(log, log)
    known = await window.load(log.watermark(5005, 9))
    assert {high.to_bytes(16) for high in range(5000, 5020)} <= set(known)
    assert window.oldest_seq == 21


async def test_a_long_log_is_not_read_at_each_start():
    """Of 100,000 batches that went forward, the first start reads all, and each later one little, wherever it is."""
    log = Log()
    for high in range(100_000):
        log.add(high, [])
    window: Any = SeenWindow(log, log)
    now = log.watermark(99_999, 1)
    await window.load(now)
    for moves in (1, 5, REACH + 1, 1000, 5, 3000):
        for _ in range(moves):
            now = log.commit(window, now.cursor + 1, [], now)
            await window.load(now)
        log.read = 0
        window = SeenWindow(log, log)
        await window.load(now)
        assert log.read < 300
    assert len(log.pieces) == 1


async def test_from_the_very_start_nothing_is_taken_for_known_to_be_outside():
    """A source that has no window at the very start has one after it: what was read meanwhile is looked at again."""

    class FromTheStart(Log):
        def in_window(self, high: Any, low: Any) -> bool:
            return low is not None and super().in_window(high, low)

    log: Any = FromTheStart()
    log.add(5, [b"a" * 16])
    window: Any = SeenWindow(log, log)
    start: Any = None
    assert not await window.load(log.watermark(start, 2))
    assert window.oldest_seq == 1
    moved = log.commit(window, 3, [b"b" * 16], log.watermark(start, 2))
    assert set(await window.load(moved)) == {b"a" * 16, b"b" * 16}


async def test_a_landmark_in_another_form_is_no_landmark():
    """What another release wrote there stops no poll: the log is read."""
    for piece in (b"", b"[1]", b'{"first": 7}', b'[{"$new": 1}, 1, 1]'):
        log: Any = Log()
        log.add(5, [b"a" * 16])
        log.pieces = {LANDMARK: piece}
        window: Any = SeenWindow(log, log)
        assert set(await window.load(log.watermark(6, 1))) == {b"a" * 16}


async def test_a_source_does_not_see_what_the_window_remembers():
    """Pages of a source's memory are whole without the window's own piece."""
    log: Any = Log()
    log.pieces = dict.fromkeys(("a", "b", "g", LANDMARK), b"")
    memory = StoredMemory(log, KEY)
    assert [name for name, _ in await memory.read(limit=3)] == ["a", "b", "g"]
    assert [name for name, _ in await memory.read(after="b", limit=1)] == ["g"]
    assert await memory.read(prefix=LANDMARK[:3], limit=1) == []


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
