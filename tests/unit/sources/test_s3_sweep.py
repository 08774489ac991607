"""Listing in ranges at once: the same objects as in one listing, from split points that were learned."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.sources import s3_sweep
from airflow_provider_incremental.sources.s3_errors import Place, S3ListingError
from airflow_provider_incremental.sources.s3_listing import S3Listing
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.sources.s3_sweep import Range, Samples, SplitPoints, Sweep
from tests.unit.sources.s3_fake import FakeBucket, client_error
from tests.unit.sources.s3_watcher import Watcher


def filled(count: int, *, page_size: int = 10) -> FakeBucket:
    """A bucket with so many keys."""
    bucket = FakeBucket(page_size=page_size)
    for number in range(count):
        bucket.put(f"{number:06}", modified=number % 50)
    return bucket


def listing_of(bucket: FakeBucket) -> S3Listing:
    """A listing of the whole bucket."""
    return S3Listing(place=Place(bucket="landing", prefix=""), client=bucket, monotonic=lambda: 0.0)


async def swept(bucket: FakeBucket, ranges: list[Range], samples: Samples | None = None) -> list[str]:
    """List ranges and return the keys."""
    keys: list[str] = []
    sweep = await Sweep.begin(listing_of(bucket), ranges)
    await sweep.walk(lambda objects: keys.extend(each.key for each in objects), samples)
    return keys


async def learned(bucket: FakeBucket) -> SplitPoints:
    """Return the split points of a bucket."""
    samples, points = Samples(), SplitPoints("")
    await swept(bucket, points.ranges(), samples)
    points.learn(samples)
    return points


async def test_ranges_are_learned_and_equally_long():
    """The first listing goes in one piece, the next in 16 ranges of about the same length."""
    bucket = filled(6400)
    points = SplitPoints("")
    assert points.ranges() == [Range("")]
    ranges = (await learned(bucket)).ranges()
    sizes = [len(await swept(bucket, [each])) for each in ranges]
    assert len(sizes) == 16
    assert sum(sizes) == 6400
    assert max(sizes) <= 450


async def test_few_pages_are_not_split():
    """A small prefix goes in one piece."""
    assert len((await learned(filled(70))).ranges()) == 1


async def test_learning_goes_on():
    """Split points follow the keys: what was learned in ranges is as good as what was learned in one piece."""
    bucket = filled(3200)
    points = await learned(bucket)
    for number in range(20_000, 23_200):
        bucket.put(f"{number:06}", modified=1)
    for _ in range(2):
        samples = Samples()
        await swept(bucket, points.ranges(), samples)
        points.learn(samples)
    sizes = [len(await swept(bucket, [each])) for each in points.ranges()]
    assert len(sizes) == 16
    assert max(sizes) <= 600


async def test_samples_are_bounded():
    """However many pages there are, few keys are kept of each range."""
    samples = Samples()
    await swept(filled(2000, page_size=1), [Range("")], samples)
    weighted = samples.weighted()
    assert len(weighted) <= 129
    assert sum(weight for _, weight in weighted) >= 1900


@settings(max_examples=200, deadline=None)
@given(
    st.sets(st.text(max_size=4), max_size=40),
    st.sets(st.text(min_size=1, max_size=4), max_size=20),
    st.integers(1, 5),
)
def test_every_key_is_in_one_range(keys, splits, page_size):
    """Wherever it is split, every key is listed once, those at the split points too."""
    bucket = FakeBucket(page_size=page_size)
    for key in keys:
        bucket.put(f"k{key}", modified=1)
    at = sorted({f"k{split}" for split in splits}, key=str.encode)
    ranges = [Range("", after, until) for after, until in zip(["", *at], [*at, None], strict=True)]
    assert sorted(asyncio.run(swept(bucket, ranges))) == sorted(f"k{key}" for key in keys)


async def test_ranges_run_at_once():
    """As many requests are under way as there are ranges."""
    bucket = filled(800)
    ranges = (await learned(bucket)).ranges()
    under_way, most = 0, 0
    plain = bucket.list_objects_v2

    async def slow(**arguments):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await plain(**arguments)

    bucket.list_objects_v2 = slow
    assert len(await swept(bucket, ranges)) == 800
    assert most == len(ranges) == 16


async def test_error_in_one_range_is_the_listing_s():
    """A range that fails fails the poll and stops the others; the next poll goes in one piece and delivers all."""
    bucket = filled(800)
    watcher = Watcher(bucket, lateness=0)
    await watcher.poll()
    bucket.put("late", modified=60)
    bucket.requests.clear()
    bucket.errors[2] = client_error("SlowDown", 503)
    with pytest.raises(S3ListingError, match="SlowDown"):
        await watcher.poll()
    assert any("StartAfter" in request for request in bucket.requests)
    assert watcher.cursor is not None
    bucket.requests.clear()
    await watcher.poll()
    assert not any("StartAfter" in request for request in bucket.requests)
    assert watcher.keys[-1] == "late"


async def test_server_that_knows_no_start_after():
    """A server that begins at the first key all the same is noticed, and never asked in ranges again."""
    bucket = filled(800)
    plain = bucket.list_objects_v2

    async def ignoring(**arguments):
        arguments.pop("StartAfter", None)
        return await plain(**arguments)

    bucket.list_objects_v2 = ignoring
    watcher = Watcher(bucket, lateness=0)
    await watcher.poll()
    bucket.put("late", modified=60)
    with pytest.raises(S3ListingError, match="asked for keys behind"):
        await watcher.poll()
    for _ in range(3):
        await watcher.poll()
    assert watcher.keys[-1] == "late"


async def test_server_that_does_not_sort_is_not_split():
    """Where keys come in no order, there are no ranges."""
    bucket = filled(800)
    bucket.changes[3] = lambda answer: answer["Contents"].reverse()
    assert len((await learned(bucket)).ranges()) == 1


async def test_no_more_than_some_at_once(monkeypatch):
    """Many ranges take turns."""
    monkeypatch.setattr(s3_sweep, "AT_ONCE", 2)
    bucket = filled(100)
    ranges = [Range(f"{number:05}") for number in range(10)]
    assert len(await swept(bucket, ranges)) == 100


class Opening:
    """A factory of clients, which notes how many are open; all that use the first one are refused."""

    def __init__(self, bucket: FakeBucket) -> None:
        self.made = self.open = 0
        self._bucket = bucket

    async def __call__(self):
        return self._client()

    @asynccontextmanager
    async def _client(self):
        self.made += 1
        self.open += 1
        await asyncio.sleep(0)
        try:
            yield Refusing(self._bucket) if self.made == 1 else self._bucket
        finally:
            self.open -= 1


class Refusing:
    """A client whose credentials expire after the first page of each of several ranges."""

    def __init__(self, bucket: FakeBucket) -> None:
        self._bucket = bucket
        self._asked = 0

    async def list_objects_v2(self, **arguments):
        self._asked = number = self._asked + 1
        for _ in range(number % 3):  # answers come one after the other
            await asyncio.sleep(0)
        if number == 8:
            raise client_error("ExpiredToken", 400)
        return await self._bucket.list_objects_v2(**arguments)


async def test_expired_credentials_leave_no_client_open():
    """Ranges that go on while one of them gives back the client share its successor, which is closed in the end."""
    bucket = FakeBucket(page_size=1)
    for number in range(64):
        bucket.put(f"k{number:02}")
    bucket.now += 10
    opening = Opening(bucket)
    source = S3KeySource(bucket="landing", client=opening)
    source._scope.splits.load(b'{"keys": ["k10", "k20", "k30", "k40", "k50"], "splits_well": true}')
    with pytest.raises(S3ListingError, match="ExpiredToken"):
        await source.poll(None, 100, frozenset())
    await source.aclose()
    assert (opening.made > 1, opening.open) == (True, 0)
