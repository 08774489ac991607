"""Objects in partitions whose time has not come: they come when it does, however old they are by then, and once."""

from __future__ import annotations

import asyncio
import datetime as dt
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.source import Baseline
from airflow_provider_incremental.sources import s3_source
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher

HOURS, DAYS = "in/{date:%Y/%m/%d/%H}/", "in/{date:%Y/%m/%d}/"
HOUR = 3600


def partition(template: str, second: float, zone: dt.tzinfo = dt.UTC) -> str:
    """The partition of a moment of a test's time, as a writer in some zone names it."""
    form = template.removeprefix("in/{date:").removesuffix("}/")
    return f"in/{at(second).astimezone(zone).strftime(form)}/"


@pytest.mark.parametrize("template", [HOURS, DAYS])
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Asia/Kathmandu", "Pacific/Auckland"])
async def test_writers_in_a_zone_ahead(template, zone):
    """Writers that name partitions by the time at their place, of which the trigger knows nothing, lose nothing."""
    bucket = FakeBucket()
    watcher = Watcher(bucket, prefix=template)
    expected = []
    for number in range(100):
        if number < 60:
            expected.append(f"{partition(template, bucket.now, ZoneInfo(zone))}{number:03}")
            bucket.put(expected[-1])
        bucket.now += 1500
        await watcher.poll()
    assert watcher.keys == expected


async def test_one_writer_ahead_of_the_others():
    """The watermark goes on with the others; what waits in the next partition comes when that is listed."""
    bucket = FakeBucket()
    watcher = Watcher(bucket, prefix=HOURS, lateness=60)
    ahead = f"{partition(HOURS, bucket.now + 5 * HOUR)}ahead"
    await watcher.poll()
    for number in range(20):
        bucket.put(f"{partition(HOURS, bucket.now)}{number:02}")
        if number == 1:
            bucket.put(ahead)
        bucket.now += HOUR / 2
        watcher.restart()
        await watcher.poll()
    assert watcher.keys.count(ahead) == 1
    assert len(watcher.keys) == 21


@pytest.mark.parametrize("start", ["latest", "at"])
async def test_start_behind_what_is_there(start):
    """An object that was there before the start does not come when its partition does."""
    bucket = FakeBucket()
    bucket.put(f"{partition(HOURS, bucket.now + 3 * HOUR)}old")
    bucket.now += 10
    watcher = Watcher(bucket, prefix=HOURS)
    source = watcher.source
    watcher.start(await (source.latest() if start == "latest" else source.at((at(bucket.now), ""))))
    for _ in range(12):
        bucket.put(f"{partition(HOURS, bucket.now)}new")
        bucket.now += HOUR / 2
        await watcher.poll()
    assert not [key for key in watcher.keys if key.endswith("old")]
    assert len(watcher.keys) == 12


async def test_a_poll_whose_commit_was_another_ones():
    """What only the poll that lost has listed is not taken for listed, though both came to the same place."""
    bucket = FakeBucket()
    watcher = Watcher(bucket, prefix=HOURS, lateness=60)
    slow = watcher.source
    ahead, present = f"{partition(HOURS, bucket.now + HOUR)}ahead", f"{partition(HOURS, bucket.now)}present"
    bucket.put(f"{partition(HOURS, bucket.now)}before")
    bucket.now += 10
    await watcher.poll()
    watcher.restart()
    quick, low = watcher.source, watcher.cursor
    bucket.put(ahead)
    bucket.now += 200
    bucket.put(present)
    bucket.now += 10
    won = await quick.poll(low, 1000, watcher.seen)
    bucket.now += HOUR
    lost = await slow.poll(low, 1000, watcher.seen)
    assert won.high == lost.high
    assert [item["key"] for item in won.items] == [present]
    assert [item["key"] for item in lost.items] == [ahead, present]
    watcher.start(Baseline(cursor=won.high, fingerprints=won.fingerprints, remember=won.remember))
    watcher.source = slow
    await watcher.poll()
    assert watcher.keys[1:] == [ahead]


STEPS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 26), max_size=3),  # objects, so many hours ahead
        st.sampled_from([0, 10, 1000, HOUR, 3 * HOUR, 30 * HOUR]),  # seconds until the poll
        st.integers(0, 1),  # which of two processes polls
        st.integers(1, 3),  # its limit
        st.booleans() | st.just(True),  # whether it lives to commit
        st.booleans(),  # whether all are started anew
    ),
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(
    steps=STEPS,
    template=st.sampled_from([HOURS, DAYS]),
    lateness=st.sampled_from([60, HOUR, 30 * HOUR]),
    start=st.sampled_from(["earliest", "latest"]),
    kept=st.sampled_from([1, 3, 20_000]),
)
def test_each_comes_once(steps, template, lateness, start, kept):
    """Whatever limits, crashes, restarts and other processes do, each object comes once, when its time has come."""

    async def play() -> None:
        bucket = FakeBucket(page_size=3)
        watcher = Watcher(bucket, prefix=template, lateness=lateness, monotonic=lambda: bucket.now)
        sources = [watcher.source]
        watcher.restart()
        sources.append(watcher.source)
        expected = []
        if start == "latest":
            bucket.put(f"{partition(template, bucket.now + 5 * HOUR)}there")
            bucket.now += 10
            watcher.start(await sources[0].latest())

        async def poll(process, limit, commit):
            watcher.source, watcher.limit = sources[process], limit
            await watcher.poll(commit=commit)

        for number, (hours, seconds, process, limit, commit, restart) in enumerate(steps):
            for ahead in hours:
                expected.append(f"{partition(template, bucket.now + ahead * HOUR)}{number:02}-{ahead:02}")
                bucket.put(expected[-1])
            bucket.now += seconds
            if restart:
                for each in range(2):
                    watcher.restart()
                    sources[each] = watcher.source
            await poll(process, limit, commit)
        for _ in range(40):
            bucket.now += HOUR
            for _ in range(3):
                await poll(0, 100, commit=True)
        assert sorted(watcher.keys) == sorted(set(expected))

    with mock.patch.object(s3_source, "_KEPT_OF_A_LISTING", kept):
        asyncio.run(play())
