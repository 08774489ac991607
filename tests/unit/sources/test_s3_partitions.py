"""Prefixes with dates: only the partitions that can hold something new are listed, and nothing is lost by that."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments
from airflow_provider_incremental.sources.s3_partitions import Partitions
from tests.unit.sources.s3_fake import START, FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher

DAYS = "in/{date:%Y/%m/%d}/"
HOURS = "in/year={date:%Y}/month={date:%m}/day={date:%d}/hour={date:%H}/"
HOUR, DAY = 3600, 86400


def named(template: str, second: float, zone: dt.tzinfo = dt.UTC) -> str:
    """The partition of a moment of a test's time."""
    moment = at(second).astimezone(zone)
    for part in ("%Y", "%m", "%d", "%H"):
        template = template.replace(f"{{date:{part}}}", moment.strftime(part))
    return template.replace("{date:%Y/%m/%d}", moment.strftime("%Y/%m/%d"))


def prefixes(bucket: FakeBucket) -> list[str]:
    """The prefixes that were listed since the last look."""
    found = [request["Prefix"] for request in bucket.requests if "ContinuationToken" not in request]
    bucket.requests.clear()
    return found


@pytest.mark.parametrize(("template", "step"), [(DAYS, DAY), (HOURS, HOUR)])
async def test_lists_from_the_cursor_to_now(template, step):
    """A poll lists the partitions from the cursor minus lateness to now, and no others."""
    bucket = FakeBucket()
    for number in range(20):
        bucket.put(f"{named(template, number * step)}a{number:02}", modified=number * step + 10)
    bucket.now = 19 * step + 100
    watcher = Watcher(bucket, prefix=template, lateness=2 * step)
    await watcher.poll()
    assert len(watcher.keys) == 20
    assert prefixes(bucket) == ["in/" if template is DAYS else "in/year="]
    bucket.now += step
    bucket.put(f"{named(template, 20 * step)}new")
    bucket.put(f"{named(template, 18 * step)}late", modified=bucket.now - step)
    bucket.now += 10
    await watcher.poll()
    assert watcher.keys[20:] == [f"{named(template, 18 * step)}late", f"{named(template, 20 * step)}new"]
    assert prefixes(bucket) == [named(template, number * step) for number in (17, 18, 19, 20)]


async def test_silence_does_not_make_polls_expensive():
    """After months without an object, a poll lists what lateness asks for, and what comes then is delivered."""
    bucket = FakeBucket()
    bucket.put(f"{named(DAYS, 0)}a", modified=10)
    watcher = Watcher(bucket, prefix=DAYS, lateness=DAY)
    for day in range(100):
        bucket.now = day * DAY + 50
        await watcher.poll()
        assert len(prefixes(bucket)) <= 6
    bucket.put(f"{named(DAYS, 99 * DAY)}b")
    bucket.now += 10
    await watcher.poll()
    assert [key[-1] for key in watcher.keys] == ["a", "b"]


async def test_long_away():
    """A watermark of years ago lists the whole prefix, once, and delivers from all partitions."""
    bucket = FakeBucket()
    for day in range(0, 1000, 100):
        bucket.put(f"{named(DAYS, day * DAY)}a", modified=day * DAY + 10)
    bucket.now = 1001 * DAY
    watcher = Watcher(bucket, prefix=DAYS)
    watcher.cursor = (at(5), "")
    await watcher.poll()
    assert len(watcher.keys) == 10
    assert prefixes(bucket)[-1] == "in/"


async def test_keys_in_no_partition_are_not_meant():
    """What lies beside the partitions does not come, and the pattern is over the key below the partition."""
    bucket = FakeBucket()
    for key in (
        "in/readme",
        "in/2026/03/x/a.csv",
        "in/2026/03/01/a.csv",
        "in/2026/03/01/b.txt",
        "in/2026/03/01/x/c.csv",
    ):
        bucket.put(key, modified=10)
    watcher = Watcher(bucket, prefix=DAYS, pattern="*.csv")
    await watcher.poll()
    assert watcher.keys == ["in/2026/03/01/a.csv"]


async def test_writer_whose_clock_is_ahead():
    """Five minutes before a partition begins it is listed already."""
    bucket = FakeBucket()
    bucket.put(f"{named(DAYS, 0)}a", modified=10)
    watcher = Watcher(bucket, prefix=DAYS, lateness=0)
    await watcher.poll()
    midnight = int((dt.datetime(2026, 3, 2, tzinfo=dt.UTC) - START).total_seconds())
    bucket.now = midnight - 60
    bucket.put(f"{named(DAYS, midnight)}early")
    bucket.now += 10
    await watcher.poll()
    assert watcher.keys[-1].endswith("early")


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns"])
@pytest.mark.parametrize("template", [DAYS, HOURS])
@pytest.mark.parametrize(
    "start", [dt.datetime(2026, 3, 28, 20, tzinfo=dt.UTC), dt.datetime(2026, 10, 24, 20, tzinfo=dt.UTC)]
)
def test_change_of_clocks(zone, template, start):
    """When clocks change, no hour and no day is left out, and none is named twice."""
    partitions = Partitions(template, zone)
    names = partitions.between(start, start + dt.timedelta(days=10))
    assert len(names) == len(set(names))
    for minutes in range(0, 10 * 24 * 60, 7):
        moment = start + dt.timedelta(minutes=minutes)
        assert partitions.between(moment, moment)[0] in names


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 10**6), st.sampled_from([DAYS, HOURS]))
def test_names_and_keys_agree(start, length, template):
    """Each partition that is named is one for keys, and all moments of the span are named."""
    partitions = Partitions(template, "Asia/Kathmandu")
    low = dt.datetime.fromtimestamp(start, dt.UTC)
    names = partitions.between(low, low + dt.timedelta(seconds=length))
    assert all(partitions.below(f"{name}key") == len(name) for name in names)
    assert partitions.between(low + dt.timedelta(seconds=length // 2), low)[0] in names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prefix": "in/{date}/"}, r"prefix='in/\{date\}/' has no date"),
        ({"prefix": "in/{date:}/"}, "has no date"),
        ({"prefix": "in/{date:day}/"}, "has no date"),
        ({"prefix": "in/{date:%H}/"}, "has no date"),
        ({"prefix": "in/{date:%Y-%m}/"}, "has no date"),
        ({"prefix": "in/{date:%Y-%m-%d %S}/"}, "has no date"),
        ({"prefix": "in/{date:%Y/%m/%d/"}, "has no date"),
        ({"prefix": DAYS, "partition_timezone": "Mars"}, "partition_timezone='Mars'.*Europe/Berlin"),
        ({"prefix": DAYS, "partition_timezone": 3}, "partition_timezone=3"),
        ({"prefix": DAYS, "order": "key"}, "order='key'.*before the date"),
    ],
)
def test_bad_templates(arguments, message):
    """A template without a whole date, an unknown zone, and a date where it has no use are refused."""
    with pytest.raises(ConfigurationError, match=message):
        check_s3_arguments(**{"bucket": "landing", **arguments})


def test_other_braces_stand_for_themselves():
    """A prefix with braces but no date is a prefix."""
    check_s3_arguments(bucket="landing", prefix="in/{x}/")
