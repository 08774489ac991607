"""Polls in the order of keys: few requests, what comes slightly out of order comes once, the limit loses nothing."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.core.source import Baseline
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import Watches
from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from tests.unit.sources.s3_fake import FakeBucket, client_error
from tests.unit.sources.s3_watcher import Watcher


@pytest.fixture
def bucket() -> FakeBucket:
    return FakeBucket()


def watcher_of(bucket: FakeBucket, **arguments) -> Watcher:
    """A watermark in memory over the whole bucket, in the order of keys."""
    return Watcher(bucket, source=S3KeyOrderSource, **arguments)


async def test_keys_come_in_their_order(bucket):
    """The order is that of the keys' bytes, whatever the time; each comes once."""
    for key, modified in [("b", 1), ("a", 900), ("é", 3), ("\U0001f600", 2), ("\uffee", 4)]:
        bucket.put(key, modified=modified)
    watcher = watcher_of(bucket, limit=2)
    while (await watcher.poll()).more:
        watcher.cursor = loads(dumps(watcher.cursor))
        watcher.restart()
    assert watcher.keys == ["a", "b", "é", "\uffee", "\U0001f600"]
    assert (await watcher.poll()).size == 0


async def test_few_requests_whatever_the_size():
    """100,000 old keys and one new one: two requests, and one where there is nothing new (case 25)."""
    bucket = FakeBucket()
    for number in range(100_000):
        bucket.put(f"2026/03/{number:06}", modified=number // 200)
    bucket.now = 1000.0
    watcher = watcher_of(bucket, reread=10)
    watcher.start(await watcher.source.latest())
    bucket.put("2026/03/100000")
    bucket.requests.clear()
    assert (await watcher.poll()).size == 1
    assert len(bucket.requests) <= 2
    bucket.requests.clear()
    assert (await watcher.poll()).size == 0
    assert len(bucket.requests) == 1


async def test_backlog_costs_one_request_a_page(bucket):
    """A backlog of old keys is read once: a page a batch."""
    for number in range(5000):
        bucket.put(f"{number:04}", modified=1)
    watcher = watcher_of(bucket, limit=1000, reread=10)
    while (await watcher.poll()).more:
        pass
    assert len(watcher.keys) == 5000
    assert len(bucket.requests) <= 6


async def test_smaller_key_inside_the_window(bucket):
    """A key that sorts before the cursor is delivered while it appears within reread seconds, and only once."""
    bucket.put("a", modified=1)
    bucket.put("c")
    watcher = watcher_of(bucket, reread=60)
    await watcher.poll()
    bucket.now += 60
    bucket.put("b")
    await watcher.poll()
    await watcher.poll()
    assert watcher.keys == ["a", "c", "b"]
    assert watcher.cursor[1] == "c"


async def test_smaller_key_outside_the_window(bucket):
    """A key that appears later than that is not delivered: what lies behind the floor is not read."""
    bucket.put("c")
    watcher = watcher_of(bucket, reread=60)
    await watcher.poll()
    bucket.now += 62
    bucket.put("d")
    await watcher.poll()
    bucket.put("b")
    await watcher.poll()
    assert watcher.keys == ["c", "d"]


@pytest.mark.parametrize("restart", [False, True])
async def test_upload_in_parts_with_an_old_time_moves_no_floor(bucket, restart):
    """An upload in parts appears with the time when it began: smaller keys still come for reread seconds after it."""
    bucket.put("a", modified=1)
    bucket.put("c", modified=500, parts=3)
    watcher = watcher_of(bucket, reread=60)
    await watcher.poll()
    for seconds, key in [(1, "b1"), (20, "b2"), (58, "b3")]:
        bucket.now = 1000 + seconds
        if restart:
            watcher.restart()
        await watcher.poll()
        bucket.put(key, parts=2, modified=600)
    await watcher.poll()
    assert watcher.keys == ["a", "c", "b1", "b2", "b3"]


async def test_floor_follows_uploads_in_parts_once_they_were_seen_long_enough(bucket):
    """What was seen reread seconds ago holds back no floor, however it was uploaded: the window stays short."""
    watcher = watcher_of(bucket, reread=60)
    for number in range(60):
        bucket.put(f"{number:03}", modified=bucket.now - 30, parts=2)
        await watcher.poll()
        bucket.now += 10
    assert watcher.keys == [f"{number:03}" for number in range(60)]
    assert watcher.cursor[1] == "059"
    assert watcher.cursor[0] >= "050"


async def test_uploads_in_parts_of_last_week_are_read_once(bucket):
    """A backlog of old uploads costs one request a page, and is not read again."""
    for number in range(5000):
        bucket.put(f"{number:04}", modified=bucket.now - 8 * 86400, parts=2)
    watcher = watcher_of(bucket, limit=1000, reread=10)
    while (await watcher.poll()).more:
        pass
    assert len(bucket.requests) <= 6
    bucket.requests.clear()
    await watcher.poll()
    assert len(bucket.requests) == 1


async def test_backlog_of_fresh_uploads_in_parts_costs_one_request_a_page(bucket):
    """While a backlog drains, each poll goes on where the one before ended; then all of it is read again, once."""
    for number in range(5000):
        bucket.put(f"{number:04}", modified=bucket.now - 3600, parts=2)
    watcher = watcher_of(bucket, limit=500, reread=60)
    while (await watcher.poll()).more:
        pass
    assert len(watcher.keys) == 5000
    assert len(bucket.requests) <= 10 + 6


async def test_batch_that_was_not_committed_comes_again(bucket):
    """A poll goes on behind the one before only when that one was committed."""
    for number in range(6):
        bucket.put(f"{number}", parts=2)
    watcher = watcher_of(bucket, limit=2, reread=60)
    await watcher.poll()
    await watcher.poll(commit=False)
    while (await watcher.poll()).more:
        pass
    assert watcher.keys == list("012345")


async def test_late_keys_with_a_limit(bucket):
    """More late keys than a batch takes: they come with the next batches, with a restart between."""
    bucket.put("z")
    watcher = watcher_of(bucket, limit=2, reread=60)
    await watcher.poll()
    for key in "abcde":
        bucket.put(key)
    more = []
    for _ in range(4):
        more.append((await watcher.poll()).more)
        watcher.restart()
    assert watcher.keys == ["z", "a", "b", "c", "d", "e"]
    assert more[:2] == [True, True]


async def test_overwritten_object(bucket):
    """A new version inside the window comes again, unless overwrites are ignored."""
    bucket.put("a", body="1")
    emitting, ignoring = watcher_of(bucket), watcher_of(bucket, on_overwrite="ignore")
    for watcher in (emitting, ignoring):
        await watcher.poll()
    bucket.put("a", body="2")
    for watcher in (emitting, ignoring):
        await watcher.poll()
    assert (emitting.keys, ignoring.keys) == (["a", "a"], ["a"])


async def test_nothing_new_moves_nothing(bucket):
    """A poll without news gives back the cursor it got, on an empty prefix as well."""
    watcher = watcher_of(bucket)
    assert (await watcher.poll()).high is None
    bucket.put("a")
    await watcher.poll()
    before = watcher.cursor
    bucket.now += 7200
    assert (await watcher.poll()).high == before


async def test_what_is_not_meant_moves_the_cursor(bucket):
    """Objects that the filter leaves out are passed over for good."""
    for number in range(30):
        bucket.put(f"{number:02}.txt", modified=1)
    watcher = watcher_of(bucket, suffix=".csv", limit=2, reread=0)
    found = await watcher.poll()
    assert (found.size, found.high) == (0, ("29.txt", "29.txt"))


@pytest.mark.parametrize("page", [1, 2])
async def test_error_moves_nothing(page):
    """A page that fails raises, and the next poll delivers everything."""
    bucket = FakeBucket(page_size=2)
    for key in "abcd":
        bucket.put(key)
    bucket.errors[page] = client_error("SlowDown", 503)
    watcher = watcher_of(bucket)
    with pytest.raises(S3ListingError):
        await watcher.poll()
    await watcher.poll()
    assert watcher.keys == list("abcd")


async def test_server_that_does_not_sort(bucket):
    """A server that lists in another order is refused: with it, keys would be lost."""
    bucket.put("a")
    bucket.put("b")
    bucket.changes[1] = lambda answer: answer["Contents"].reverse()
    with pytest.raises(SourceError, match=r"order='key'.*'a' after 'b'.*order='modified'"):
        await watcher_of(bucket).poll()


async def test_latest_and_explicit_start(bucket):
    """Latest leaves out what is there; a start at a key takes what sorts behind it."""
    assert await S3KeyOrderSource(bucket="landing", client=bucket).latest() == Baseline(cursor=None)
    for key in "abc":
        bucket.put(key)
    latest, explicit = watcher_of(bucket), watcher_of(bucket)
    latest.start(await latest.source.latest())
    explicit.start(await explicit.source.at("b"))
    bucket.put("bb")
    bucket.put("d")
    await latest.poll()
    await explicit.poll()
    assert latest.keys == ["bb", "d"]
    assert explicit.keys == ["bb", "c", "d"]


def test_watches_and_configuration(bucket):
    """The watermark is another one than that of the order of time, and bad arguments are refused."""
    source = S3KeyOrderSource(bucket="landing", prefix="in/", client=bucket)
    assert source.watches == Watches(source="s3://landing/in/", cursor="key")
    with pytest.raises(ConfigurationError, match="reread=-1"):
        S3KeyOrderSource(bucket="landing", client=bucket, reread=-1)


@pytest.mark.parametrize("cursor", [3, ("a",), ("a", 3)])
async def test_cursor_of_another_kind(bucket, cursor):
    """A cursor that is no key is refused."""
    with pytest.raises(SourceError, match="no position among keys"):
        await S3KeyOrderSource(bucket="landing", client=bucket).poll(cursor, 1, frozenset())


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 3), st.sampled_from([0, 5, 60]))
def test_nothing_inside_the_window_is_lost(random_: random.Random, limit: int, page_size: int, reread: int):
    """Keys up to reread seconds out of order, uploads in parts that are dated long before, crashes: each comes once."""
    bucket = FakeBucket(page_size=page_size)
    watcher = watcher_of(bucket, limit=limit, reread=reread)
    jobs = [(number + random_.uniform(0, reread), f"{number:03}") for number in range(30)]
    began = bucket.now

    async def live() -> None:
        for due, key in sorted(jobs):
            bucket.now = began + due
            parts = random_.randrange(3)
            bucket.put(key, parts=parts, modified=bucket.now - random_.choice([0, 50, 86400]) if parts else None)
            match random_.randrange(4):
                case 0:
                    await watcher.poll()
                case 1:
                    await watcher.poll(commit=False)
                case 2:
                    watcher.restart()
        while (await watcher.poll()).more:
            pass

    asyncio.run(live())
    assert sorted(watcher.keys) == [key for _, key in jobs]
