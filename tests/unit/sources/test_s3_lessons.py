"""What a source has learned is kept with the watermark: a restart costs nothing, and an idle poll moves nothing."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.sources import s3_sweep
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from tests.unit.sources.s3_fake import FakeBucket, client_error
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket(monkeypatch) -> FakeBucket:
    """A bucket of forty pages, which are worth sixteen ranges."""
    monkeypatch.setattr(s3_sweep, "_PAGES_A_RANGE", 1)
    bucket = FakeBucket(page_size=5)
    for number in range(200):
        bucket.put(f"{number:03}", modified=number)
    return bucket


async def test_restart_keeps_split_points(bucket):
    """After a restart the first listing goes in ranges already."""
    watcher = Watcher(bucket)
    await watcher.poll()
    watcher.restart()
    bucket.requests.clear()
    await watcher.poll()
    assert bucket.listings() == 16


async def test_start_at_latest_keeps_split_points(bucket):
    """The listing that finds the start teaches too."""
    watcher = Watcher(bucket)
    watcher.start(await watcher.source.latest())
    watcher.restart()
    bucket.requests.clear()
    await watcher.poll()
    assert bucket.listings() == 16


async def test_idle_polls_commit_nothing(bucket):
    """Split points that move are written with the next batch, and not before."""
    watcher = Watcher(bucket)
    await watcher.poll()
    for number in range(100):
        bucket.delete(f"{number:03}")
    found = await watcher.poll()
    assert (found.high, found.remember) == (watcher.cursor, {})
    bucket.put("new", modified=950)
    assert (await watcher.poll()).remember


async def test_server_that_cannot_split_is_remembered(bucket):
    """A server that ignores where to begin is asked for everything in one piece, after a restart as well."""
    watcher = Watcher(bucket)
    await watcher.poll()
    bucket.ignores_start = True
    with pytest.raises(s3_sweep.S3ListingError, match="begins with"):
        await watcher.poll()
    bucket.put("new", modified=950)
    await watcher.poll()
    watcher.restart()
    bucket.requests.clear()
    await watcher.poll()
    assert bucket.listings() == 1


async def test_late_objects_are_counted_over_a_restart(bucket):
    """What appeared too late while nobody watched counts, once, whatever is restarted."""
    watcher = Watcher(bucket, lateness=10)
    await watcher.poll()
    bucket.put("300", modified=300)
    await watcher.poll()
    watcher.restart()
    bucket.put("late", modified=5)
    for _ in range(3):
        await watcher.poll()
        watcher.restart()
    assert watcher.late == 1
    assert "late" not in watcher.keys


async def test_late_objects_are_counted_again_when_the_count_was_not_committed(bucket):
    """A poll that met a late object and came to nothing has counted nothing."""
    watcher = Watcher(bucket, lateness=10)
    await watcher.poll()
    bucket.put("300", modified=300)
    await watcher.poll()
    bucket.put("late", modified=5)
    await watcher.poll(commit=False)
    watcher.restart()
    await watcher.poll()
    assert watcher.late == 1


@pytest.mark.parametrize("change", [{"suffix": "1"}, {"lateness": 100}])
async def test_other_rules_make_nothing_late(bucket, change):
    """Objects that another filter or another window means were not missed: the count begins anew."""
    watcher = Watcher(bucket, lateness=10, suffix="0")
    await watcher.poll()
    await watcher.poll()
    watcher._arguments |= change
    watcher.restart()
    await watcher.poll()
    assert watcher.late == 0


async def test_sightings_outlive_a_restart():
    """In the order of keys, what an earlier process saw long enough ago holds back no floor."""
    bucket = FakeBucket()
    watcher = Watcher(bucket, source=S3KeyOrderSource, reread=60)
    for number in range(30):
        bucket.put(f"{number:03}", modified=bucket.now - 30, parts=2)
        watcher.restart()
        await watcher.poll()
        bucket.now += 10
    assert watcher.cursor[0] >= "020"
    assert (await watcher.poll()).remember == {}


@pytest.mark.parametrize("page", [1, 2])
async def test_failed_listing_is_followed_by_a_modest_one(bucket, page):
    """After a page that failed, the first of the listing or a later one, the next listing goes in one piece."""
    watcher = Watcher(bucket)
    await watcher.poll()
    bucket.errors[page] = client_error("SlowDown", 503)
    with pytest.raises(s3_sweep.S3ListingError):
        await watcher.poll()
    bucket.requests.clear()
    await watcher.poll()
    assert bucket.listings() == 1
