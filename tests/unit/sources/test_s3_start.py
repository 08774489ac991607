"""Where a watermark over S3 begins: what was there before counts as delivered, what comes later does not."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.source import Baseline
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    return FakeBucket(page_size=2)


async def test_latest_leaves_out_what_is_there(bucket):
    """Three old objects, then a new one: none, then one, although the old ones lie in the lateness window."""
    for key, modified in [("a", 900), ("b", 910), ("c", 880)]:
        bucket.put(key, modified=modified)
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.latest())
    assert watcher.cursor == (at(910), "b")
    assert (await watcher.poll()).size == 0
    bucket.put("0", modified=950)
    await watcher.poll()
    assert watcher.keys == ["0"]


async def test_latest_of_an_empty_prefix(bucket):
    """An empty prefix begins at the very start: whatever comes is new, however old it says it is."""
    source = S3KeySource(bucket="landing", client=bucket)
    assert await source.latest() == Baseline(cursor=None, fingerprints=())
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.latest())
    bucket.put("a", modified=1)
    await watcher.poll()
    assert watcher.keys == ["a"]


async def test_upload_under_way_at_the_start_is_delivered(bucket):
    """A multipart upload that began before the start and ends after it is new."""
    bucket.put("b", modified=900)
    watcher = Watcher(bucket, lateness=60)
    watcher.start(await watcher.source.latest())
    bucket.put("a", modified=850)
    await watcher.poll()
    assert watcher.keys == ["a"]


async def test_latest_does_not_reach_into_the_running_second(bucket):
    """What was written within settle of the start is delivered rather than lost."""
    bucket.put("a", modified=900)
    bucket.put("b", modified=999)
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.latest())
    assert watcher.cursor == (at(900), "a")
    bucket.now += 10
    await watcher.poll()
    assert watcher.keys == ["b"]


async def test_latest_names_the_window_only(bucket):
    """Fingerprints are kept for the window behind the newest object, wherever on the pages that one is."""
    bucket.put("a", modified=10)
    bucket.put("b", modified=500)
    bucket.put("c", modified=440)
    bucket.put("d", modified=439)
    bucket.put("e", modified=20)
    source = S3KeySource(bucket="landing", client=bucket, lateness=60)
    baseline = await source.latest()
    assert baseline.cursor == (at(500), "b")
    assert len(baseline.fingerprints) == 2
    assert (await S3KeySource(bucket="landing", client=bucket, lateness=0).latest()).fingerprints == ()


async def test_explicit_start(bucket):
    """A start at a moment takes objects of that moment and later; those before it count as delivered."""
    for key, modified in [("a", 899), ("b", 900), ("c", 901)]:
        bucket.put(key, modified=modified)
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.at(at(900)))
    bucket.put("late", modified=890)
    await watcher.poll()
    assert watcher.keys == ["late", "b", "c"]


async def test_explicit_start_in_the_middle_of_a_second(bucket):
    """A start at a position takes what stands behind it, also within the same second."""
    for key in "abc":
        bucket.put(key, modified=900)
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.at((at(900), "b")))
    await watcher.poll()
    assert watcher.keys == ["c"]


async def test_start_at_the_very_start(bucket):
    """A start at None needs no listing."""
    assert await S3KeySource(bucket="landing", client=bucket).at(None) == Baseline(cursor=None)
    assert bucket.requests == []
