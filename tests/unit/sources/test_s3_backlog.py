"""A backlog drains from one listing, in flat memory, and never at the price of an object."""

from __future__ import annotations

import tracemalloc

import pytest

from airflow_provider_incremental.sources import s3_source
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    bucket = FakeBucket()
    for number in range(50):
        bucket.put(f"{number:02}", modified=number)
    return bucket


async def test_backlog_is_listed_once(bucket):
    """While a backlog drains, the batches come from the listing that found it."""
    watcher = Watcher(bucket, limit=10)
    for _ in range(5):
        await watcher.poll()
    assert bucket.listings() == 1
    assert watcher.keys == [f"{number:02}" for number in range(50)]
    await watcher.poll()
    assert bucket.listings() == 2


async def test_rest_of_a_listing_gets_old(bucket):
    """A rest that nobody asked for in time is not used any more."""
    watcher = Watcher(bucket, limit=10)
    await watcher.poll()
    watcher.time += 31
    await watcher.poll()
    assert bucket.listings() == 2
    assert watcher.keys == [f"{number:02}" for number in range(20)]


@pytest.mark.parametrize("lateness", [0, 3600])
async def test_rest_is_not_used_when_the_batch_was_not_committed(bucket, lateness):
    """A process that fails between poll and commit gets the same batch again."""
    watcher = Watcher(bucket, limit=10, lateness=lateness)
    first = await watcher.poll(commit=False)
    again = await watcher.poll()
    assert list(first.items) == list(again.items)
    assert bucket.listings() == 2


async def test_rest_is_not_used_when_a_late_batch_was_not_committed(bucket):
    """A batch of late objects does not move the cursor, so its loss shows only in what was seen."""
    bucket.put("now", modified=900)
    watcher = Watcher(bucket, limit=100)
    await watcher.poll()
    for number in range(4):
        bucket.put(f"late{number}", modified=800 + number)
    watcher.limit = 2
    await watcher.poll(commit=False)
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys[-4:] == ["late0", "late1", "late2", "late3"]


async def test_rest_is_not_used_after_a_rewind(bucket):
    """A rewind, to any place, reads again from there."""
    watcher = Watcher(bucket, limit=10)
    await watcher.poll()
    watcher.cursor = (at(4), "04")
    watcher._log.clear()
    found = await watcher.poll()
    assert found.items[0]["key"] == "00"
    watcher = Watcher(bucket, limit=10)
    await watcher.poll()
    watcher._log.clear()  # a rewind to where it stands, to read the window again
    found = await watcher.poll()
    assert found.items[0]["key"] == "00"


async def test_rest_leaves_out_what_another_feed_delivered(bucket):
    """What was delivered by somebody else meanwhile does not come again out of the rest."""
    bucket.put("now", modified=900)
    watcher = Watcher(bucket, limit=100)
    await watcher.poll()
    for number in range(3):
        bucket.put(f"late{number}", modified=800 + number)
    watcher.limit = 1
    await watcher.poll()
    other = S3KeySource(bucket="landing", client=bucket)
    theirs = await other.poll(watcher.cursor, 1, watcher.seen)
    watcher._log.append((theirs.high, theirs.fingerprints))
    found = await watcher.poll()
    assert [item["key"] for item in theirs.items] == ["late1"]
    assert [item["key"] for item in found.items] == ["late2"]


async def test_late_object_that_appears_while_a_backlog_drains(bucket):
    """An object that the listing could not hold is inside the window of the next one."""
    bucket.now = 60
    watcher = Watcher(bucket, limit=10, lateness=60)
    await watcher.poll()
    bucket.put("late", modified=3)
    for _ in range(5):
        await watcher.poll()
    assert sorted(watcher.keys) == sorted([*(f"{number:02}" for number in range(50)), "late"])
    assert len(watcher.keys) == 51


async def test_more_than_a_listing_keeps(bucket, monkeypatch):
    """What does not fit into the rest of a listing is found by the next listing."""
    monkeypatch.setattr(s3_source, "_KEPT_OF_A_LISTING", 20)
    monkeypatch.setattr("airflow_provider_incremental.sources.s3_selection._SORTED_AT_ONCE", 5)
    watcher = Watcher(bucket, limit=8)
    mores = []
    while not mores or mores[-1]:
        mores.append((await watcher.poll()).more)
    assert watcher.keys == [f"{number:02}" for number in range(50)]
    assert bucket.listings() == 3


async def test_newest_on_the_last_page():
    """2,001 objects, the only new one sorts last: it is found."""
    bucket = FakeBucket()
    for number in range(2000):
        bucket.put(f"{number:04}", modified=number % 900)
    watcher = Watcher(bucket, limit=5000)
    watcher.start(await watcher.source.latest())
    bucket.put("zzz", modified=950)
    await watcher.poll()
    assert watcher.keys == ["zzz"]


class Endless:
    """A listing of very many objects, made up page by page."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    async def list_objects_v2(self, **arguments):
        number = int(arguments.get("ContinuationToken", 0))
        return {
            "IsTruncated": number + 1 < self.pages,
            "NextContinuationToken": str(number + 1),
            "EncodingType": "url",
            "Contents": [
                {
                    "Key": f"{number:06}/{each:04}",
                    "LastModified": at((number * 7919 + each * 104729) % 1_000_000),
                    "ETag": '"0123456789abcdef0123456789abcdef"',
                    "Size": 1,
                }
                for each in range(1000)
            ],
            "ResponseMetadata": {"HTTPHeaders": {"date": "Tue, 01 Dec 2026 00:00:00 GMT"}},
        }


@pytest.mark.parametrize("read", ["poll", "latest", "at"])
async def test_case_24_memory_does_not_grow_with_the_bucket(read):
    """Three times the objects need no more memory."""
    peaks = []
    for pages in (45, 135):
        source = S3KeySource(bucket="landing", client=Endless(pages), lateness=60)
        tracemalloc.start()
        if read == "poll":
            found = await source.poll(None, 1000, frozenset())
            assert found.more
        elif read == "latest":
            assert (await source.latest()).cursor is not None
        else:
            await source.at(at(500_000))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.3 + 500_000


async def test_rest_is_used_behind_a_moment():
    """A watermark that was set to a moment is a position too: late objects behind it are listed once."""
    bucket = FakeBucket()
    for key in "abc":
        bucket.put(key, modified=490)
    watcher = Watcher(bucket, limit=1, lateness=60)
    watcher.cursor = at(500)
    while (await watcher.poll()).more:
        pass
    assert (watcher.keys, bucket.listings()) == ([*"abc"], 1)


async def test_object_repeated_on_two_pages(bucket):
    """A server that shows an object on two pages does not make two items of it."""
    bucket.page_size = 25
    watcher = Watcher(bucket, limit=1, lateness=0)
    bucket.changes[2] = lambda answer: answer["Contents"].insert(
        0, {**answer["Contents"][0], "Key": "24", "LastModified": at(24)}
    )
    while (await watcher.poll()).more:
        pass
    assert watcher.keys == [f"{number:02}" for number in range(50)]
