"""What a store in object storage keeps where: documents that do not grow, and nothing left of what nobody needs."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import LeaseLostError, StoreError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.dict_bucket import DictBucket, answered

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
WATCHES = Watches("table orders", "id")
NOTHING = PollReport()
DAY = 86400.0


class Place:
    """A bucket and a store in it, with a clock that both go by."""

    def __init__(self, **options: Any) -> None:
        self.clock = FakeClock()
        self.bucket = DictBucket()
        self.bucket.now = self.clock.now
        self.store = self.opened(**options)

    def opened(self, **options: Any) -> ObjectStore:
        """Open the store once more."""
        return ObjectStore(address=ObjectAddress(bucket="b"), client=self.bucket, clock=self.clock, **options)

    def keys(self, part: str) -> list[str]:
        """The objects whose names begin so."""
        return [key for key in self.bucket.objects if key.startswith(part)]

    @property
    def document(self) -> bytes:
        """The object of the one watermark."""
        [key] = self.keys("watermarks/")
        return self.bucket.objects[key][1]

    async def cycles(self, count: int) -> None:
        """Commit, confirm and process so many batches."""
        watermark = await self.store.register(KEY, WATCHES)
        await self.store.subscribe(ORDERS, "load", "earliest")
        for _ in range(count):
            at = dt.datetime(2026, 1, 31, tzinfo=dt.UTC) + dt.timedelta(minutes=watermark.version)
            new = NewBatch(low=watermark.cursor, high=(at, watermark.version), items=["item"], count=1)
            watermark, [batch] = await self.store.commit(watermark, new.high, [new], NOTHING)
            await self.store.confirm(KEY, [batch.id])
            claim = await self.store.claim(ORDERS, "load", f"dag/run/task/{batch.seq}", 60)
            assert claim is not None
            await self.store.acknowledge(claim)
            self.clock.advance(60)


async def test_a_document_does_not_grow_with_its_history():
    """After 500 batches it has at most 220 of them, 85 bytes each and little else; the log is whole."""
    place = Place()
    for _ in range(2):
        await place.cycles(250)
        assert len(place.document) < 220 * 85 + 3000
    assert len([key for key in place.keys("data/") if "/p-" in key]) == 2
    assert [batch.seq for batch in await place.store.history(KEY, None, 2000)] == list(range(500, 0, -1))
    assert [batch.seq for batch in await place.store.history(KEY, 150, 3)] == [149, 148, 147]


async def test_a_thousand_commits_over_a_bad_line_are_applied_once_each():
    """One request in five breaks, before or after its effect: versions, numbers and items have no gap and no twin."""
    place, chance = Place(page=5), random.Random(3)
    place.store.bucket.pause = lambda _: 0.0
    watermark = await place.store.register(KEY, WATCHES)
    place.bucket.fault = lambda *_: chance.choice(["before", "after"]) if chance.random() < 0.2 else None
    for number in range(1, 1001):
        new = NewBatch(low=number - 1, high=number, items=[number], count=1)
        watermark, [batch] = await place.store.commit(watermark, number, [new], NOTHING)
        assert (watermark.version, batch.seq) == (number, number)
        await place.store.confirm(KEY, [batch.id])
    log = await place.store.history(KEY, None, 2000)
    assert [batch.items for batch in log] == [[number] for number in range(1000, 0, -1)]


async def test_who_only_looks_writes_nothing():
    """Lists and histories need no permission to write, and make no request of that kind."""
    place = Place(page=1)
    await place.cycles(4)
    place.bucket.requests.clear()
    store = place.opened()
    assert len(await store.list_watermarks()) == 1
    assert len(await store.consumers()) == 1
    assert len(await store.history(KEY)) == 4
    assert await store.pending(ORDERS, "load") == []
    assert await store.dead_batches() == []
    assert await store.journal() == []
    assert await store.identity()
    assert set(place.bucket.requests) == {"get_object", "list_objects_v2"}


async def test_others_may_write_as_much_as_they_like_meanwhile():
    """Whoever works for minutes while others write renews and acknowledges all the same."""
    place = Place()
    await place.cycles(1)
    worker, others = place.opened(), place.opened()
    watermark = await others.load(KEY)
    assert watermark is not None
    for round_ in range(3):
        for number in range(110):
            new = NewBatch(low=watermark.cursor, high=number, items=["item"], count=1)
            watermark, _ = await others.commit(watermark, number, [new], NOTHING)
        place.clock.advance(3)
        if round_ == 0:
            claim = await worker.claim(ORDERS, "load", "dag/run/task/9", 60)
            assert claim is not None
        elif round_ == 1:
            await worker.renew(claim, 60)
        else:
            await worker.acknowledge(claim)
    assert await others.acknowledged(ORDERS, "load", claim.batch.id)


class Conflicting(DictBucket):
    """Answers the first writes of items as S3 answers a request that meets another one under way."""

    conflicts = 2

    def _put(self, given: dict[str, Any]) -> dict[str, Any]:
        if "/data/" in f"/{given['Key']}" and self.conflicts:
            self.conflicts -= 1
            raise answered("ConditionalRequestConflict", 409)
        return super()._put(given)


async def test_a_conflict_does_not_mean_that_items_are_there():
    """They are written again, and nothing is committed without them."""
    place = Place()
    place.bucket = Conflicting()
    place.bucket.now = place.clock.now
    place.store = place.opened()
    place.store.bucket.pause = lambda _: 0.0
    await place.cycles(1)
    assert place.bucket.conflicts == 0


async def test_what_is_pruned_leaves_no_object():
    """Pages and segments go with their batches, at the latest with the next pruning."""
    place = Place(page=10)
    await place.cycles(60)
    place.clock.advance(30 * DAY)
    assert await place.store.prune(KEY, 10 * DAY, 99, limit=25) == 25
    assert [batch.seq for batch in await place.store.history(KEY)] == list(range(60, 25, -1))
    assert await place.store.prune(KEY, 10 * DAY, 99) == 35
    assert await place.store.prune(KEY, 10 * DAY, 99) == 0
    assert place.keys("data/") == []


async def test_a_claim_that_was_lost_long_ago_is_still_lost():
    """Whose batch was finished by another worker learns so, also when it is in a page by then; who finished it, not."""
    place = Place(page=1)
    await place.store.register(KEY, WATCHES)
    await place.cycles(1)
    watermark = await place.store.load(KEY)
    assert watermark is not None
    _, [batch] = await place.store.commit(watermark, 1, [NewBatch(low=0, high=1, items=["a"], count=1)], NOTHING)
    lost = await place.store.claim(ORDERS, "load", "slow", 60)
    place.clock.advance(61)
    mine = await place.store.claim(ORDERS, "load", "quick", 60)
    assert lost is not None
    assert mine is not None
    await place.store.acknowledge(mine)
    await place.store.confirm(KEY, [batch.id])
    await place.cycles(4)
    assert len([key for key in place.keys("data/") if "/p-" in key]) >= 2
    with pytest.raises(LeaseLostError):
        await place.store.acknowledge(lost)
    await place.store.acknowledge(mine)
    assert await place.store.acknowledged(ORDERS, "load", batch.id)


class Crowded(DictBucket):
    """Whoever reads items comes too late: twice others take the batch first, then its items are not there for once."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.rival: ObjectStore | None = None

    async def get_object(self, **given: Any) -> dict[str, Any]:
        """Let the others be first."""
        if "/s-" in given["Key"] and self.rival is not None:
            self.reads += 1
            if self.reads <= 2:
                rival, self.rival = self.rival, None
                assert await rival.claim(ORDERS, "load", f"rival {self.reads}", 60)
                self.rival = rival
            elif self.reads == 3:
                given["Key"] += "-gone"
        return await super().get_object(**given)


async def test_lost_races_do_not_count_as_missing_items():
    """Who was late twice and then finds items gone looks again, as who was not late does."""
    place, bucket = Place(), Crowded()
    place.bucket = bucket
    place.store, rival = place.opened(), place.opened()
    place.store.bucket.pause = lambda _: 0.0
    watermark = await place.store.register(KEY, WATCHES)
    await place.store.subscribe(ORDERS, "load", "earliest")
    new = [NewBatch(low=None, high=1, items=[number], count=1) for number in range(3)]
    await place.store.commit(watermark, 1, new, NOTHING)
    bucket.rival = rival
    claim = await place.store.claim(ORDERS, "load", "slow", 60)
    assert claim is not None
    assert (claim.batch.seq, bucket.reads) == (3, 4)


async def test_what_is_forgotten_leaves_its_journal():
    """Everything else is deleted at once; a new watermark of the name begins with nothing."""
    place = Place(page=1)
    await place.cycles(5)
    await place.store.rewind(KEY, None, reread=True, act=Act("anna"))
    assert await place.store.forget(KEY, Act("anna", "wrong table"))
    assert place.keys("data/") == []
    assert len(place.document) < 1000
    assert [entry.operation for entry in await place.opened().journal(KEY)] == ["forget", "rewind"]
    await place.cycles(2)
    assert [batch.seq for batch in await place.store.history(KEY)] == [2, 1]


async def test_a_long_journal_is_kept_whole():
    """Newest first, of one watermark or of all, wherever its entries are."""
    place = Place()
    for number in range(50):
        await place.store.rewind(KEY, number, reread=False, act=Act("anna", str(number)))
    assert [entry.why for entry in await place.opened().journal(KEY)] == [str(number) for number in range(49, -1, -1)]
    assert [entry.why for entry in await place.store.journal(limit=3)] == ["49", "48", "47"]
    assert len(place.document) < 3000


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([f"known/{number}" for number in range(8)]), st.none() | st.binary(max_size=60), min_size=1
        ),
        max_size=15,
    )
)
def test_what_a_source_remembers_is_what_it_said_last(changes: list[dict[str, bytes | None]]):
    """Whatever changes, and in a handful of objects, whatever was written."""

    async def play() -> None:
        place, said = Place(), dict[str, bytes]()
        watermark = await place.store.register(KEY, WATCHES)
        for number, change in enumerate(changes, 1):
            watermark, _ = await place.store.commit(watermark, number, [], NOTHING, change)
            said |= {name: piece for name, piece in change.items() if piece is not None}
            said = {name: piece for name, piece in said.items() if change.get(name, piece) is not None}
            assert await place.store.remembered(KEY, "", "", 100) == sorted(said.items())
            assert await place.opened().remembered(KEY, "known/3", "", 100) == [
                each for each in sorted(said.items()) if each[0].startswith("known/3")
            ]
        assert len(place.keys("data/")) <= 8

    asyncio.run(play())


async def test_what_a_newer_release_wrote_is_left_alone():
    """A cursor of an unknown type is listed as what it is; a document of another form says to upgrade."""
    place = Place()
    await place.store.commit(await place.store.register(KEY, WATCHES), "here", [], NOTHING)
    [key] = place.keys("watermarks/")
    text = gzip.decompress(place.document).decode()

    def put(text: str, tag: str) -> None:
        place.bucket.objects[key] = (tag, gzip.compress(text.encode()), place.clock.now())

    put(text.replace('"cursor":"here"', '"cursor":{"$vector":"1,2"}'), '"a"')
    [listed] = await place.opened().list_watermarks()
    assert "$vector" in listed.cursor["unreadable"]
    with pytest.raises(StoreError, match="upgrade"):
        await place.opened().load(KEY)
    with pytest.raises(StoreError, match="upgrade"):
        await place.opened().report(KEY, NOTHING)
    put(text.replace('"format":1', '"format":2'), '"b"')
    with pytest.raises(StoreError, match=r"format is 2.*upgrade"):
        await place.opened().load(KEY)
