"""What is changed on a running watermark counts from the next poll on, and delivers nothing a second time."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket
from tests.unit.sources.s3_watcher import Watcher

SOURCES = pytest.mark.parametrize("source", [S3KeySource, S3KeyOrderSource])
KEYS = ["a", "b", "c"]


async def delivered(source, **arguments) -> tuple[FakeBucket, Watcher]:
    """Return a watcher that has delivered some objects, which are still inside its window."""
    bucket = FakeBucket()
    for key in KEYS:
        bucket.put(key)
    bucket.now += 10
    watcher = Watcher(bucket, source=source, **arguments)
    await watcher.poll()
    assert watcher.keys == KEYS
    return bucket, watcher


async def switched(watcher: Watcher, **arguments) -> Watcher:
    """Change arguments, as with a new version of the DAG file, and poll twice."""
    watcher._arguments.update(arguments)
    watcher.restart()
    for _ in range(2):
        await watcher.poll()
    return watcher


@SOURCES
@pytest.mark.parametrize(("before", "after"), [("emit", "ignore"), ("ignore", "emit")])
async def test_what_overwrites_mean_can_be_changed(source, before, after):
    """What was delivered under the one meaning, and is read again, does not come again under the other."""
    bucket, watcher = await delivered(source, on_overwrite=before)
    bucket.put("d")
    bucket.now += 10
    assert (await switched(watcher, on_overwrite=after)).keys == [*KEYS, "d"]


async def test_overwrites_count_from_the_change_on():
    """Switched to "emit", a key comes again when it is overwritten above the watermark, and to "ignore", no more."""
    bucket, watcher = await delivered(S3KeySource, on_overwrite="ignore")
    bucket.put("a", body="2")
    bucket.now += 10
    assert (await switched(watcher, on_overwrite="emit")).keys == [*KEYS, "a"]
    bucket.put("a", body="3")
    bucket.now += 10
    assert (await switched(watcher, on_overwrite="ignore")).keys == [*KEYS, "a"]


async def test_window_can_be_opened_later():
    """With a lateness that is given later, what was delivered before is known."""
    _, watcher = await delivered(S3KeySource, lateness=0)
    assert (await switched(watcher, lateness=3600)).keys == KEYS
