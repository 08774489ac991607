"""Keys that are gone: each that was delivered is reported once, and none that is there, or was never delivered."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at, client_error
from tests.unit.sources.s3_removals_watcher import drained, watcher_of


@pytest.mark.parametrize("restart", [False, True])
async def test_key_that_is_gone_is_reported_once(bucket, restart):
    """A delivered object that was deleted is an item of the removed ones, with bucket, key and address."""
    bucket.put("a b", modified=900)
    watcher = watcher_of(bucket)
    await drained(watcher)
    before = watcher.cursor
    bucket.delete("a b")
    if restart:
        watcher.restart()
    found = await watcher.poll()
    assert list(found.removed) == [{"bucket": "landing", "key": "a b", "uri": "s3://landing/a%20b"}]
    assert (found.size, found.high, found.more) == (0, before, False)
    found = await watcher.poll()
    assert (found.removed, found.remember) == ([], {})


async def test_only_what_was_delivered_can_be_gone(bucket):
    """Objects that nobody got are nobody's loss: not meant, a marker, archived, too new, or not yet their turn."""
    bucket.put("other.txt", modified=1)
    bucket.put("dir/", modified=1, size=0)
    bucket.put("cold.csv", modified=1, storage_class="GLACIER")
    bucket.put("new.csv")
    bucket.put("1.csv", modified=1)
    bucket.put("2.csv", modified=2)
    watcher = watcher_of(bucket, suffix=".csv", limit=1)
    await watcher.poll()
    assert watcher.keys == ["1.csv"]
    watcher.restart()
    for key in ("other.txt", "dir/", "cold.csv", "new.csv", "2.csv", "a"):
        bucket.delete(key)
    await drained(watcher)
    assert watcher.removed == []
    bucket.delete("1.csv")
    await drained(watcher)
    assert watcher.removed == ["1.csv"]


async def test_start_at_latest_knows_the_keys_that_are_there(bucket):
    """What was there at the start is not delivered, but its removal is."""
    watcher = watcher_of(bucket)
    watcher.start(await watcher.source.latest())
    await drained(watcher)
    bucket.delete("b")
    bucket.put("g", modified=980)
    await drained(watcher)
    assert (watcher.keys, watcher.removed) == (["g"], ["b"])


async def test_late_object_counts_when_it_was_delivered(bucket, monkeypatch):
    """What lies in the window and is still to be delivered is not noted as there: it may go before its turn."""
    watcher = watcher_of(bucket, limit=1, lateness=500)
    watcher.start(await watcher.source.latest())
    bucket.put("late", modified=700)
    monkeypatch.setattr(watcher.source, "_listed", None)  # the first poll only notes what is there
    await watcher.poll()
    watcher.restart()
    bucket.delete("late")
    bucket.delete("a")
    await drained(watcher)
    assert (watcher.keys, watcher.removed) == ([], ["a"])


@pytest.mark.parametrize("page", [1, 2, 3])
@pytest.mark.parametrize("fault", ["error", "no token", "no end"])
async def test_no_removal_from_an_incomplete_listing(bucket, page, fault):
    """A page that fails or is cut short takes the listing along: the rest of it is not gone."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    bucket.delete("a")
    if fault == "error":
        bucket.errors[page] = client_error("SlowDown", 503)
    elif fault == "no token":
        bucket.changes[page] = lambda answer: answer.update(IsTruncated=True, NextContinuationToken=None)
    else:
        bucket.changes[page] = lambda answer: answer.pop("IsTruncated")
    with pytest.raises(S3ListingError):
        await watcher.poll()
    assert watcher.removed == []
    await drained(watcher)
    assert watcher.removed == ["a"]


async def test_batch_that_was_not_committed_comes_again(bucket):
    """A crash between a poll and its commit loses no removal, and repeats none."""
    watcher = watcher_of(bucket, limit=1)
    await drained(watcher)
    bucket.delete("a")
    bucket.delete("b")
    await watcher.poll(commit=False)
    await watcher.poll(commit=False)
    await drained(watcher)
    assert watcher.removed == ["a", "b"]


async def test_what_another_feed_reported_is_not_reported_again(bucket):
    """Two processes on one watermark: the rest of a listing is dropped when the other one has committed."""
    watcher = watcher_of(bucket, limit=1)
    await drained(watcher)
    one = watcher.source
    for key in "abc":
        bucket.delete(key)
    await watcher.poll()
    watcher.restart()
    await watcher.poll()
    watcher.source = one
    await drained(watcher)
    assert watcher.removed == ["a", "b", "c"]


async def test_object_that_changes_is_not_gone(bucket):
    """Overwritten, archived, emptied: a key that is listed is there."""
    watcher = watcher_of(bucket, min_size=1)
    await drained(watcher)
    bucket.put("a", body="2")
    bucket.put("b", size=0)
    bucket.put("c", storage_class="GLACIER")
    bucket.now += 60
    await drained(watcher)
    assert (watcher.keys, watcher.removed) == ([*"abcdef", "a"], [])


async def test_gone_and_there_again(bucket):
    """A key that comes again is delivered again, and may go again."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    for _ in range(2):
        bucket.delete("a")
        await drained(watcher)
        bucket.put("a")
        bucket.now += 60
        await drained(watcher)
    assert watcher.keys == [*"abcdef", "a", "a"]
    assert watcher.removed == ["a", "a"]


async def test_filter_that_was_narrowed_is_respected(bucket):
    """A key that a new pattern does not mean is not reported, and forgotten."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    watcher._arguments["pattern"] = "[!ab]"
    watcher.restart()
    bucket.delete("a")
    bucket.delete("c")
    await drained(watcher)
    assert watcher.removed == ["c"]


async def test_switched_on_later(bucket):
    """On a watermark that is long under way, what is there and was delivered is known from the next poll on."""
    watcher = watcher_of(bucket)
    watcher._arguments["removals"] = False
    watcher.restart()
    await drained(watcher)
    bucket.delete("a")
    watcher._arguments["removals"] = True
    watcher.restart()
    await drained(watcher)
    bucket.delete("b")
    await drained(watcher)
    assert watcher.removed == ["b"]


async def test_switched_off_and_on_again(bucket):
    """What was delivered meanwhile is known again; what went meanwhile is reported."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    watcher._arguments["removals"] = False
    watcher.restart()
    bucket.put("g", modified=950)
    bucket.delete("a")
    await drained(watcher)
    watcher._arguments["removals"] = True
    watcher.restart()
    await drained(watcher)
    bucket.delete("g")
    await drained(watcher)
    assert watcher.removed == ["a", "g"]


async def test_rewind_makes_nothing_gone_twice(bucket):
    """After a rewind what is there is delivered again; what was reported is not reported again."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    bucket.delete("a")
    await drained(watcher)
    watcher.cursor = (at(903), "d")
    watcher._log.clear()
    await drained(watcher)
    watcher.cursor = None
    await drained(watcher)
    bucket.delete("f")
    await drained(watcher)
    assert watcher.removed == ["a", "f"]


async def test_partitions():
    """Of a prefix with dates, keys are compared in the partitions that are listed; others are not said to be gone."""
    bucket = FakeBucket()
    bucket.put("2026-03-01/a", modified=900)
    bucket.put("2026-03-01/b", modified=901)
    watcher = watcher_of(bucket, prefix="{date:%Y-%m-%d}/", lateness=60)
    await drained(watcher)
    bucket.delete("2026-03-01/a")
    await drained(watcher)
    assert watcher.removed == ["2026-03-01/a"]
    bucket.now += 5 * 86400
    bucket.put("2026-03-06/c", modified=bucket.now - 10)
    await drained(watcher)
    await drained(watcher)
    bucket.delete("2026-03-01/b")
    bucket.delete("2026-03-06/c")
    await drained(watcher)
    assert watcher.removed == ["2026-03-01/a", "2026-03-06/c"]


async def test_server_that_does_not_sort(bucket):
    """A server that lists in another order is refused: with it, keys would look as if they were gone."""
    watcher = watcher_of(bucket)
    bucket.changes[1] = lambda answer: answer["Contents"].reverse()
    with pytest.raises(SourceError, match=r"removals=True: .*order.*leave removals out"):
        await watcher.poll()


def test_refused_with_the_order_of_keys():
    """A poll in the order of keys does not see all of them, so it cannot tell which are gone."""
    with pytest.raises(ConfigurationError, match=r"removals=True .*order='key'.*order='modified'"):
        S3KeyOrderSource(bucket="landing", client=FakeBucket(), removals=True)
    with pytest.raises(ConfigurationError, match="removals='yes'"):
        S3KeySource(bucket="landing", client=FakeBucket(), removals="yes")


async def test_idle_polls_write_nothing(bucket):
    """Where nothing happens, nothing is committed, also with keys to compare."""
    watcher = watcher_of(bucket)
    await drained(watcher)
    for _ in range(3):
        bucket.now += 10
        found = await watcher.poll()
        assert (found.high, found.remember, found.removed) == (watcher.cursor, {}, [])
