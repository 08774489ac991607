"""Polls of the S3 source: what is delivered, once, in which order, and how far the watermark moves."""

from __future__ import annotations

import datetime as dt
import re
from urllib.parse import unquote

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import Watches
from airflow_provider_incremental.sources.s3_source import S3KeySource, cursor_from
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    return FakeBucket()


async def test_objects_come_by_time_then_key(bucket):
    """The order is that of last modification, and that of keys within a second, whatever the listing's order."""
    for key, modified in [("a", 30), ("b", 10), ("d", 20), ("c", 20)]:
        bucket.put(key, modified=modified)
    watcher = Watcher(bucket)
    found = await watcher.poll()
    assert watcher.keys == ["b", "c", "d", "a"]
    assert found.high == (at(30), "a")
    assert not found.more
    assert len(set(found.fingerprints)) == found.size == 4
    assert all(len(mark) == 16 for mark in found.fingerprints)


async def test_item_has_all_facts(bucket):
    """An item names bucket, key, address, size, etag without quotes, time with zone, and storage class."""
    bucket.put("in/a b+c:d%20é.csv", modified=5, size=7, body="x")
    watcher = Watcher(bucket, prefix="in/")
    found = await watcher.poll()
    assert list(found.items) == [
        {
            "bucket": "landing",
            "key": "in/a b+c:d%20é.csv",
            "uri": "s3://landing/in/a%20b%2Bc%3Ad%2520%C3%A9.csv",
            "size": 7,
            "etag": "9dd4e461268c8034f5c8564e155c67a6",
            "last_modified": at(5),
            "version_id": None,
            "storage_class": "STANDARD",
        }
    ]
    assert loads(dumps(list(found.items))) == found.items
    assert loads(dumps(found.high)) == found.high


async def test_keys_are_byte_equal(bucket):
    """Control characters, both unicode forms, plus signs, percent signs, odd slashes and non-UTF-8 bytes survive."""
    keys = [
        "+",
        " ",
        "%25",
        "a//b",
        "/lead",
        "./x",
        "a/../b",
        "e\u0301",
        "é",
        "😀",
        "\x01\x1f\x7f\r\n\t",
        "&<>\"'",
        "\udcff",
    ]
    for key in [*keys, "k" * 1024]:
        bucket.put(key, modified=1)
    watcher = Watcher(bucket)
    found = await watcher.poll()
    assert sorted(watcher.keys) == sorted([*keys, "k" * 1024])
    assert all(unquote(item["uri"], errors="surrogateescape") == f"s3://landing/{item['key']}" for item in found.items)


async def test_server_without_encoding_is_taken_literally(bucket):
    """A key is decoded only when the server says that it encoded it."""
    bucket.put("a", modified=1)
    bucket.changes[1] = lambda answer: answer.update(
        EncodingType=None, Contents=[{**answer["Contents"][0], "Key": "a%20+"}]
    )
    watcher = Watcher(bucket)
    await watcher.poll()
    assert watcher.keys == ["a%20+"]


async def test_nothing_new_is_nothing(bucket):
    """One object, five polls, one delivery; a poll without news gives back the cursor that it got."""
    bucket.put("a", modified=1)
    watcher = Watcher(bucket)
    await watcher.poll()
    for _ in range(4):
        before = watcher.cursor
        found = await watcher.poll()
        assert (found.size, found.high, found.more) == (0, before, False)
    assert watcher.keys == ["a"]


async def test_empty_prefix_keeps_the_very_start(bucket):
    """Nothing found from the very start leaves the cursor at the very start."""
    bucket.put("elsewhere/a", modified=1)
    assert (await Watcher(bucket, prefix="in/").poll()).high is None


@pytest.mark.parametrize("restart", [False, True])
async def test_ties_with_limit_one(bucket, restart):
    """Three objects of one second, one a poll: each once, with a restart between polls or without."""
    for key in "cab":
        bucket.put(key, modified=100)
    watcher = Watcher(bucket, limit=1)
    more = []
    for _ in range(3):
        more.append((await watcher.poll()).more)
        if restart:
            watcher.restart()
    assert watcher.keys == ["a", "b", "c"]
    assert more == [True, True, False]
    assert (await watcher.poll()).size == 0


async def test_1500_ties_with_limit_and_restart(bucket):
    """1,500 objects of one second, 100 a poll, with a restart in the middle: 1,500 deliveries."""
    for number in range(1500):
        bucket.put(f"{number:04}", modified=100)
    watcher = Watcher(bucket, limit=100)
    for number in range(15):
        if number == 7:
            watcher.restart()
        assert (await watcher.poll()).size == 100
    assert watcher.keys == [f"{number:04}" for number in range(1500)]
    assert (await watcher.poll()).size == 0


async def test_limit_takes_turns(bucket):
    """60 objects, 25 a poll: 25, 25, 10."""
    for number in range(60):
        bucket.put(f"{number:02}", modified=number % 7)
    watcher = Watcher(bucket, limit=25)
    assert [(await watcher.poll()).size for _ in range(3)] == [25, 25, 10]
    assert len(set(watcher.keys)) == 60


async def test_overwrite_is_a_new_item(bucket):
    """Each version that a poll meets is one item, whether it has another content or only another time."""
    bucket.put("k", modified=900, body="1")
    watcher = Watcher(bucket)
    await watcher.poll()
    bucket.put("k", modified=900, body="2")
    await watcher.poll()
    bucket.put("k", modified=901, body="2")
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["k", "k", "k"]


async def test_overwrite_between_listing_and_delivery_of_the_rest(bucket):
    """An object that is overwritten while its listing drains comes again as its new version."""
    bucket.put("a", modified=900)
    bucket.put("b", modified=901, body="1")
    watcher = Watcher(bucket, limit=1)
    await watcher.poll()
    bucket.put("b", modified=990, body="2")
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["a", "b", "b"]
    assert watcher.items[-1]["last_modified"] == at(990)


async def test_deleted_newest_does_not_move_the_watermark_back(bucket):
    """The watermark never moves backwards."""
    bucket.put("a", modified=900)
    bucket.put("b", modified=950)
    watcher = Watcher(bucket)
    await watcher.poll()
    bucket.delete("b")
    assert (await watcher.poll()).high == (at(950), "b")


async def test_folder_markers_are_no_items(bucket):
    """A marker is skipped, at the prefix itself too; an empty file and a non-empty marker are delivered."""
    bucket.put("in/", modified=1, size=0)
    bucket.put("in/a", modified=2)
    bucket.put("in/empty", modified=3, size=0)
    bucket.put("in/odd/", modified=4, size=5)
    bucket.put("in/sub/", modified=5, size=0)
    watcher = Watcher(bucket, prefix="in/")
    found = await watcher.poll()
    assert watcher.keys == ["in/a", "in/empty", "in/odd/"]
    assert found.high == (at(5), "in/sub/")


async def test_marker_alone_makes_no_batch(bucket):
    """A prefix with only its marker moves the watermark and delivers nothing."""
    bucket.put("in/", modified=1, size=0)
    found = await Watcher(bucket, prefix="in/").poll()
    assert (found.size, found.high, found.more) == (0, (at(1), "in/"), False)


async def test_pattern_below_the_prefix(bucket):
    """The pattern sees the key after the prefix; what it leaves out moves the watermark."""
    for number, key in enumerate(["in/a.csv", "in/b.txt", "in/x/c.csv", "in/d.csv", "in/e.txt"]):
        bucket.put(key, modified=number)
    watcher = Watcher(bucket, prefix="in/", pattern="*.csv")
    found = await watcher.poll()
    assert watcher.keys == ["in/a.csv", "in/d.csv"]
    assert found.high == (at(4), "in/e.txt")


async def test_filtered_objects_do_not_use_up_the_limit(bucket):
    """The limit counts what is delivered; more is said only when there is more to deliver."""
    for number in range(20):
        bucket.put(f"{number:02}.txt", modified=number)
    bucket.put("20.csv", modified=20)
    bucket.put("21.csv", modified=21)
    watcher = Watcher(bucket, pattern="*.csv", limit=1)
    assert [(await watcher.poll()).more for _ in range(2)] == [True, False]
    assert watcher.keys == ["20.csv", "21.csv"]


async def test_moment_as_cursor(bucket):
    """A moment alone is the position below every object of that moment."""
    bucket.put("a", modified=900)
    bucket.put("b", modified=901)
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    watcher = Watcher(bucket, lateness=0)
    watcher.cursor = at(901).astimezone(zone)
    await watcher.poll()
    assert watcher.keys == ["b"]
    assert cursor_from(at(901).astimezone(zone)) == (at(901), "")


@pytest.mark.parametrize(
    "cursor", [7, "2026-01-01", at(1).replace(tzinfo=None), (at(1),), (at(1), b"k"), (at(1), "k", 3)]
)
async def test_cursor_of_another_shape(bucket, cursor):
    """A cursor that is no position among objects is refused, with the shape that is needed."""
    with pytest.raises(SourceError, match=re.escape(f"cursor={cursor!r} is no position among S3 objects; give a time")):
        await S3KeySource(bucket="landing", client=bucket).poll(cursor, 10, frozenset())


def test_watches_bucket_and_prefix(bucket):
    """A watermark of one prefix is not one of another."""
    source = S3KeySource(bucket="landing", prefix="orders/", client=bucket)
    assert source.watches == Watches("s3://landing/orders/", "last_modified,key")


def test_bad_arguments_are_refused(bucket):
    """The source refuses what the check refuses."""
    with pytest.raises(ConfigurationError, match="settle=0"):
        S3KeySource(bucket="landing", client=bucket, settle=0)
