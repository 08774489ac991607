"""Many keys, known or gone: they are noted, compared and reported some at a time, and none is lost by it."""

from __future__ import annotations

import tracemalloc

import pytest

from airflow_provider_incremental.sources import s3_removals, s3_source, s3_sweep
from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at, client_error
from tests.unit.sources.s3_memory import FakeMemory
from tests.unit.sources.s3_removals_watcher import drained, watcher_of


@pytest.mark.parametrize("restart", [False, True])
async def test_limit_takes_turns(restart):
    """More removals than a batch takes come with the next ones, each once, in order."""
    bucket = FakeBucket()
    names = [f"{number:03}" for number in range(25)]
    for name in names:
        bucket.put(name, modified=1)
    watcher = watcher_of(bucket, limit=10)
    await drained(watcher)
    for name in names:
        bucket.delete(name)
    sizes = []
    more = True
    while more:
        found = await watcher.poll()
        sizes.append(len(found.removed))
        more = found.more
        if restart:
            watcher.restart()
    assert sizes == [10, 10, 5]
    assert watcher.removed == names


async def test_more_than_a_listing_keeps(bucket, monkeypatch):
    """What one listing has no room for is found by the next."""
    monkeypatch.setattr(s3_removals, "_KEPT_OF_A_LISTING", 2)
    watcher = watcher_of(bucket)
    await drained(watcher)
    for key in "abcdef":
        bucket.delete(key)
    await drained(watcher)
    assert watcher.removed == list("abcdef")


@pytest.mark.parametrize("crash", [False, True])
async def test_noting_takes_turns(bucket, monkeypatch, crash):
    """Keys that are there at the start are noted some at a time, over crashes and restarts; nothing is lost by it."""
    monkeypatch.setattr(s3_removals, "_NOTED_AT_ONCE", 2)
    watcher = watcher_of(bucket)
    watcher.start(await watcher.source.latest())
    found = await watcher.poll()
    assert found.more
    assert "'b'" in found.note
    if crash:
        await watcher.poll(commit=False)
        watcher.restart()
    await drained(watcher)
    for key in "abcdef":
        bucket.delete(key)
    await drained(watcher)
    assert watcher.removed == list("abcdef")


async def test_noting_needs_an_answer_too(bucket):
    """A page that fails while keys are noted is an error, and the next poll notes them."""
    watcher = watcher_of(bucket)
    watcher.start(await watcher.source.latest())
    bucket.errors[2] = client_error("SlowDown", 503)
    with pytest.raises(S3ListingError):
        await watcher.poll()
    await drained(watcher)
    bucket.delete("f")
    await drained(watcher)
    assert watcher.removed == ["f"]


async def test_ranges_at_once(monkeypatch):
    """In ranges that are listed at once, keys at every edge are compared, once."""
    monkeypatch.setattr(s3_sweep, "_PAGES_A_RANGE", 1)
    bucket = FakeBucket(page_size=3)
    names = [f"{number:03}" for number in range(100)]
    for name in names:
        bucket.put(name, modified=1)
    watcher = watcher_of(bucket)
    await drained(watcher)
    gone = names[::2]
    for name in gone:
        bucket.delete(name)
    bucket.requests.clear()
    await drained(watcher)
    assert bucket.listings() > 5
    assert watcher.removed == gone
    for name in names[1::2]:
        bucket.delete(name)
    await drained(watcher)
    assert sorted(watcher.removed) == names


class Endless:
    """A listing of very many objects, made up page by page, of which every thousandth may be gone."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.gone = False

    async def list_objects_v2(self, **arguments):
        after = arguments.get("ContinuationToken") or arguments.get("StartAfter", "")
        number = int(after[:6]) + 1 if after else 0
        return {
            "IsTruncated": number + 1 < self.pages,
            "NextContinuationToken": f"{number:06}/0999",
            "EncodingType": "url",
            "Contents": [
                {
                    "Key": f"{number:06}/{each:04}",
                    "LastModified": at(0),
                    "ETag": '"0123456789abcdef0123456789abcdef"',
                    "Size": 1,
                }
                for each in range(1 if self.gone else 0, 1000)
            ],
            "ResponseMetadata": {"HTTPHeaders": {"date": "Tue, 01 Dec 2026 00:00:00 GMT"}},
        }


async def test_memory_does_not_grow_with_the_bucket(monkeypatch):
    """Three times the known keys need no more memory of the process; in the store, they take a few bytes each."""
    monkeypatch.setattr(s3_source, "_KEPT_OF_A_LISTING", 1000)
    peaks = []
    for pages in (45, 135):
        bucket, memory = Endless(pages), FakeMemory()
        source = S3KeySource(bucket="landing", client=bucket, lateness=0, removals=True)
        source.memory = memory
        low = (at(1), "")
        while (found := await source.poll(low, 1000, frozenset())).more:
            memory.change(found.remember)
        kept = sum(map(len, memory.pieces.values()))
        assert kept < 8 * 1000 * pages
        bucket.gone = True
        tracemalloc.start()
        found = await source.poll(low, 1000, frozenset())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert [item["key"] for item in found.removed] == [f"{number:06}/0000" for number in range(pages)]
    assert peaks[1] < peaks[0] * 1.3 + 200_000
