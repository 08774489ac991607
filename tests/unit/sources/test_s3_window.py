"""Which objects a poll takes although they are old, and leaves although they are there: window, bound and races."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    """An empty bucket."""
    return FakeBucket()


async def test_second_object_of_a_second_after_the_poll(bucket):
    """An object that shows up later with the very second of the cursor is delivered, the first is not repeated."""
    bucket.put("b", modified=100)
    watcher = Watcher(bucket)
    await watcher.poll()
    bucket.put("a", modified=100)
    bucket.put("c", modified=100)
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["b", "a", "c"]


async def test_the_running_second_waits(bucket):
    """An object of the last seconds waits until no other one can come before it, by the server's clock."""
    bucket.now = 1000.4
    bucket.put("old", modified=998)
    bucket.put("new", modified=999)
    watcher = Watcher(bucket, lateness=0)
    await watcher.poll()
    assert watcher.keys == ["old"]
    bucket.put("newer", modified=999)
    bucket.now = 1001.0
    await watcher.poll()
    assert watcher.keys == ["old", "new", "newer"]


async def test_slow_first_answer_lowers_the_bound(bucket):
    """The server may have listed long before it stamped its answer, so the length of the exchange is taken off."""
    bucket.put("a", modified=990)
    watcher = Watcher(bucket, lateness=0)

    def dawdle() -> None:
        bucket.put("0", modified=bucket.now)
        watcher.time += 9.5
        bucket.now += 9.5

    bucket.put("z", modified=bucket.now)
    bucket.after_page[1] = dawdle
    await watcher.poll()
    assert watcher.keys == ["a"]
    bucket.now += 20
    await watcher.poll()
    assert watcher.keys == ["a", "0", "z"]


async def test_written_behind_the_scan():
    """Page 1 is read, an object lands on it, page 2 holds a newer one: both are delivered, none is passed over."""
    bucket = FakeBucket(page_size=1)
    bucket.put("a/old", modified=1)
    bucket.put("z/0", modified=2)
    watcher = Watcher(bucket, lateness=0)

    def write() -> None:
        bucket.now += 5
        bucket.put("a/new", modified=bucket.now)
        bucket.now += 1
        bucket.put("z/1", modified=bucket.now)

    bucket.before_page[2] = write
    found = await watcher.poll()
    assert watcher.keys == ["a/old", "z/0"]
    assert found.high == (at(2), "z/0")
    bucket.now += 10
    await watcher.poll()
    assert watcher.keys == ["a/old", "z/0", "a/new", "z/1"]


async def test_out_of_order_upload_inside_the_window(bucket):
    """An object that appears with an older time is delivered inside the window, once, before newer ones."""
    bucket.put("b", modified=900)
    watcher = Watcher(bucket, lateness=60)
    await watcher.poll()
    bucket.put("edge", modified=840)
    bucket.put("late", modified=850)
    bucket.put("new", modified=910)
    found = await watcher.poll()
    assert [item["key"] for item in found.items] == ["edge", "late", "new"]
    assert (await watcher.poll()).size == 0


async def test_outside_the_window_is_not_read(bucket):
    """An object older than the window does not come."""
    bucket.put("b", modified=900)
    watcher = Watcher(bucket, lateness=60)
    await watcher.poll()
    bucket.put("too-late", modified=839)
    assert (await watcher.poll()).size == 0


async def test_without_window_nothing_behind_the_cursor_is_read(bucket):
    """lateness=0 reads what is above the cursor only."""
    bucket.put("b", modified=900)
    watcher = Watcher(bucket, lateness=0)
    await watcher.poll()
    bucket.put("a", modified=900)
    bucket.put("c", modified=900)
    assert [item["key"] for item in (await watcher.poll()).items] == ["c"]


@pytest.mark.parametrize("restart", [False, True])
async def test_late_objects_cut_by_the_limit(bucket, restart):
    """Late objects that do not fit into a batch come with the next ones; they neither stall nor get lost."""
    bucket.put("now", modified=900)
    watcher = Watcher(bucket, limit=2, lateness=100)
    await watcher.poll()
    for number in range(5):
        bucket.put(f"late{number}", modified=850 + number)
    bucket.put("new", modified=901)
    sizes = []
    for _ in range(3):
        found = await watcher.poll()
        sizes.append((found.size, found.more, found.high[1]))
        if restart:
            watcher.restart()
    assert sizes == [(2, True, "now"), (2, True, "now"), (2, False, "new")]
    assert watcher.keys == ["now", "late0", "late1", "late2", "late3", "late4", "new"]
    assert (await watcher.poll()).size == 0


async def test_clock_of_the_server_behind_the_watermark_is_noted(bucket):
    """A watermark ahead of the server's clock holds everything back, and says so."""
    bucket.put("a", modified=900)
    source = S3KeySource(bucket="landing", client=bucket, lateness=0)
    found = await source.poll((at(5000), ""), 10, frozenset())
    assert (found.size, found.high) == (0, (at(5000), ""))
    assert found.note is not None
    assert "ahead of the server's clock" in found.note


@pytest.mark.parametrize(
    ("high", "low", "inside"),
    [
        ((at(40), "z"), (at(100), "a"), True),
        ((at(39), "z"), (at(100), "a"), False),
        ((at(500), "a"), (at(100), "a"), True),
        (at(40), at(100), True),
        ((at(1), "a"), None, True),
        (None, (at(1), "a"), False),
        ((at(1), "a"), (dt.datetime(1, 1, 1, tzinfo=dt.UTC), ""), True),
    ],
)
def test_in_window(bucket, high, low, inside):
    """A batch can be forgotten once it ended before the window."""
    assert S3KeySource(bucket="landing", client=bucket, lateness=60).in_window(high, low) is inside


async def test_wider_pattern_on_a_running_trigger(bucket):
    """It delivers what it means now inside the window and above the watermark; what is older was passed over."""
    bucket.put("a.csv", modified=500)
    for key, modified in [("old.txt", 100), ("recent.txt", 490)]:
        bucket.put(key, modified=modified)
    watcher = Watcher(bucket, lateness=60, suffix=".csv")
    await watcher.poll()
    watcher._arguments["suffix"] = [".csv", ".txt"]
    watcher.restart()
    bucket.put("new.txt", modified=600)
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["a.csv", "recent.txt", "new.txt"]
    watcher.cursor = None
    await watcher.poll()
    assert watcher.keys[3:] == ["old.txt"]


async def test_longer_window_on_a_running_trigger(bucket):
    """What was delivered does not come again; what a start or the shorter window left out does. A shorter is safe."""
    bucket.put("left out", modified=300)
    bucket.put("newest", modified=500)
    watcher = Watcher(bucket, lateness=60)
    watcher.start(await watcher.source.latest())
    bucket.put("a", modified=550)
    await watcher.poll()
    for lateness, keys in [(60, ["a"]), (10, ["a"]), (400, ["a", "left out"]), (60, ["a", "left out"])]:
        watcher._arguments["lateness"] = lateness
        watcher.restart()
        await watcher.poll()
        await watcher.poll()
        assert watcher.keys == keys
