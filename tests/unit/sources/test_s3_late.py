"""Objects that appear too late are not delivered, but counted, logged and shown: never silent (case 6)."""

from __future__ import annotations

import pytest

from tests.unit.sources.s3_fake import FakeBucket
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    bucket = FakeBucket(page_size=3)
    for number in range(10):
        bucket.put(f"old{number}", modified=number)
    bucket.put("new", modified=900)
    return bucket


async def test_late_objects_are_counted_once(bucket, caplog):
    """What appears behind the window counts with the poll that meets it, and not again."""
    watcher = Watcher(bucket, lateness=60)
    assert (await watcher.poll()).late_skipped == 0
    assert (await watcher.poll()).late_skipped == 0
    bucket.put("late1", modified=40)
    bucket.put("late2", modified=5)
    assert (await watcher.poll()).late_skipped == 2
    assert (await watcher.poll()).late_skipped == 0
    assert "late1" not in watcher.keys
    assert [record.message for record in caplog.records] == [
        "s3://landing/: 2 objects appeared later than lateness=60 and are not delivered"
    ]


async def test_what_moves_out_of_the_window_is_not_late(bucket):
    """As the watermark goes on, what was delivered falls behind the window: that is nothing that came late."""
    watcher = Watcher(bucket, lateness=60)
    for now in range(1000, 2000, 37):
        bucket.now = now
        bucket.put(f"at{now}")
        bucket.now += 5
        assert (await watcher.poll()).late_skipped == 0


async def test_deletions_do_not_hide_it(bucket):
    """Old objects that go away do not make up for late ones."""
    watcher = Watcher(bucket, lateness=60)
    await watcher.poll()
    await watcher.poll()
    for number in range(10):
        bucket.delete(f"old{number}")
    bucket.put("late", modified=40)
    assert (await watcher.poll()).late_skipped <= 1
    bucket.put("later", modified=41)
    bucket.put("latest", modified=42)
    assert (await watcher.poll()).late_skipped == 2


async def test_objects_that_are_not_meant_do_not_count(bucket):
    """Only what would have been delivered is missed."""
    watcher = Watcher(bucket, lateness=60, suffix=".csv")
    await watcher.poll()
    await watcher.poll()
    bucket.put("late.txt", modified=40)
    bucket.put("late.csv", modified=40)
    assert (await watcher.poll()).late_skipped == 1


async def test_rewind_makes_nothing_late(bucket):
    """After a rewind, what is read again is not counted."""
    watcher = Watcher(bucket, lateness=60)
    await watcher.poll()
    await watcher.poll()
    watcher.cursor = None
    watcher._log.clear()
    assert (await watcher.poll()).late_skipped == 0
    assert (await watcher.poll()).late_skipped == 0
