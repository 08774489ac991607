"""A watcher that is told what is gone, and polls until there is no more."""

from __future__ import annotations

from tests.unit.sources.s3_fake import FakeBucket
from tests.unit.sources.s3_watcher import Watcher


def watcher_of(bucket: FakeBucket, **arguments) -> Watcher:
    """A watermark that reports what is gone."""
    return Watcher(bucket, removals=True, **arguments)


async def drained(watcher: Watcher) -> None:
    """Poll until nothing is left to be done."""
    while (await watcher.poll()).more:
        pass
