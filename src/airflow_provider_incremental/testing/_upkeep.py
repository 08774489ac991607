"""The store suite's part on upkeep: replays, retention, consumers and the journal."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.testing._stage import (
    ANNA,
    EU,
    KEY,
    LONG,
    ORDERS,
    appended,
    confirmed,
    done,
    log_of,
    seqs,
    status_of,
    taken,
    waiting,
)
from airflow_provider_incremental.testing.fakes import FakeClock


class UpkeepTests:
    """What a store promises to those who look after it."""

    async def test_a_dead_batch_can_be_replayed(self, store: WatermarkStore, clock: FakeClock) -> None:
        """It waits again, is announced at once, and its attempts count from 1."""
        batches = await log_of(store, 3)
        await confirmed(store, *batches)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        await store.release(await taken(store), "bad row", dead=True)
        await done(store, 1)
        clock.advance(100)
        assert await store.due(KEY, 10) == []
        assert await store.replay(KEY, 1, 3, dead_only=True) == {"load": 1}
        assert await store.dead_batches() == []
        assert seqs(await store.due(KEY, 10)) == [2]
        claim = await taken(store)
        assert (claim.batch.seq, claim.attempt) == (2, 1)
        await store.acknowledge(claim)
        assert await waiting(store) == []
        assert (await status_of(store)).done_seq == 3

    async def test_a_range_can_be_replayed_to_one_or_to_all(self, store: WatermarkStore) -> None:
        """Exactly these come again, to whom they are meant; what still waits is not counted."""
        await log_of(store, 5)
        for consumer in ("load", "mail"):
            await store.subscribe(ORDERS, consumer, "earliest")
            await done(store, 4, consumer)
        assert await store.replay(KEY, 2, 3, consumer="load") == {"load": 2}
        assert await waiting(store) == [2, 3, 5]
        assert await waiting(store, "mail") == [5]
        assert await store.replay(KEY, 3, 9) == {"load": 1, "mail": 2}
        assert await waiting(store) == [2, 3, 4, 5]
        assert await waiting(store, "mail") == [3, 4, 5]
        assert await store.replay(KEY, 1, 9, consumer="nobody") == {}
        assert await store.replay(WatermarkKey("nothing"), 1, 9) == {}
        assert [(await taken(store)).batch.seq for _ in range(4)] == [2, 3, 4, 5]

    async def test_what_was_before_the_start_can_be_replayed(self, store: WatermarkStore) -> None:
        """A consumer that began later gets exactly what is named, and what it has finished stays finished."""
        await log_of(store, 5)
        await store.subscribe(ORDERS, "load", "latest")
        await appended(store, "new")
        assert await waiting(store) == [6]
        assert await store.replay(KEY, 2, 3, consumer="load") == {"load": 2}
        assert await waiting(store) == [2, 3, 6]
        status = await status_of(store)
        assert (status.start_seq, status.done_seq, status.pending) == (1, 1, 3)
        await done(store, 3)
        assert (await status_of(store)).done_seq == 6

    async def test_a_replay_before_the_start_gives_nothing_else_that_was_before_it(self, store: WatermarkStore) -> None:
        """Of a long log, a consumer gets the one batch that was asked for, now and whatever is asked later."""
        await confirmed(store, *await log_of(store, 12))
        await store.subscribe(ORDERS, "load", "latest")
        assert await store.replay(KEY, 1, 1, consumer="load") == {"load": 1}
        assert await waiting(store) == [1]
        await store.subscribe(ORDERS, "mail", "earliest")
        assert await waiting(store) == [1]
        assert await waiting(store, "mail") == list(range(1, 13))

    async def test_what_is_held_is_not_replayed(self, store: WatermarkStore) -> None:
        """Its holder has it; it finishes once."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store)
        assert await store.replay(KEY, 1, 1) == {"load": 0}
        await store.acknowledge(claim)
        assert await waiting(store) == []

    async def test_consumers_are_listed_with_their_progress(self, store: WatermarkStore, clock: FakeClock) -> None:
        """By watermark and name, with what waits, and when they were seen."""
        began = clock.now()
        await log_of(store, 2)
        await appended(store, "there before", kind="baseline")
        await store.subscribe(ORDERS, "load", "earliest")
        await store.subscribe(ORDERS, "mail", "latest")
        clock.advance(5)
        await appended(store, "x", key=WatermarkKey("else"))
        await done(store, 1)
        expected = ConsumerStatus(
            key=KEY, consumer="load", start_seq=0, done_seq=1, pending=1, dead=0,
            first_seen_at=began, last_seen_at=clock.now(),
        )  # fmt: skip
        assert await status_of(store) == expected
        mail = await status_of(store, "mail")
        assert (mail.start_seq, mail.done_seq, mail.pending, mail.last_seen_at) == (3, 3, 0, began)
        assert [each.consumer for each in await store.consumers()] == ["load", "mail"]

    async def test_a_consumer_can_be_forgotten(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Nobody is called for it any more, and if it comes back it is a new one."""
        batches = await log_of(store, 2)
        await confirmed(store, *batches)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        claim = await taken(store)
        clock.advance(100)
        assert await store.unsubscribe(ORDERS, "load", ANNA) == [KEY]
        assert await store.consumers() == []
        assert await store.due(KEY, 10) == []
        assert await store.unsubscribe(ORDERS, "load", ANNA) == []
        await store.acknowledge(claim)  # there is nothing left to acknowledge, and nothing wrong with that
        await store.subscribe(ORDERS, "load", "earliest")
        assert await waiting(store) == [1, 2]
        assert [each.operation for each in await store.journal(KEY)] == ["unsubscribe"]

    async def test_what_nobody_needs_is_pruned_oldest_first(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Old, announced, finished by everybody, and before the number that is given: all four, or it stays."""
        batches = await log_of(store, 6)
        await confirmed(store, *batches[:5])
        for consumer, count in (("load", 5), ("mail", 4)):
            await store.subscribe(ORDERS, consumer, "earliest")
            await done(store, count, consumer)
        clock.advance(LONG)
        assert await store.prune(KEY, LONG + 1, 99) == 0  # too young
        assert await store.prune(KEY, LONG - 1, 3, limit=1) == 1
        assert await store.prune(KEY, LONG - 1, 3) == 1
        assert seqs(await store.history(KEY)) == [6, 5, 4, 3]
        assert await store.prune(KEY, LONG - 1, 99) == 2  # 5 is not finished by mail
        await done(store, 2, "mail")
        await done(store, 1)
        assert await store.prune(KEY, LONG - 1, 99) == 1  # 6 was never announced
        assert seqs(await store.history(KEY)) == [6]
        new = await appended(store, "new")
        assert new.seq == 7
        assert await waiting(store) == [7]
        assert (await taken(store)).batch.items == ["new"]

    async def test_what_is_dead_is_not_pruned(self, store: WatermarkStore, clock: FakeClock) -> None:
        """It is kept until somebody replays it or gives it up."""
        batches = await log_of(store, 2)
        await confirmed(store, *batches)
        await store.subscribe(ORDERS, "load", "earliest")
        await store.release(await taken(store), "bad row", dead=True)
        await done(store, 1)
        clock.advance(LONG)
        assert await store.prune(KEY, 1, 99) == 1
        assert await store.replay(KEY, 1, 1, dead_only=True) == {"load": 1}
        assert (await taken(store)).batch.items == ["item 0"]

    async def test_without_consumers_the_announced_are_pruned(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Where DAGs read events only, the log does not grow for ever; a baseline goes with its time."""
        await appended(store, "there before", kind="baseline")
        batches = await log_of(store, 2)
        await confirmed(store, batches[0])
        clock.advance(LONG)
        assert await store.prune(KEY, 1, 99) == 2
        assert seqs(await store.history(KEY)) == [3]

    async def test_acts_are_recorded_with_who_and_why(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """In the order they were done, in words that say what changed; what is forgotten keeps its entries."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        await store.rewind(KEY, 5, reread=False)  # nobody's act
        await store.rewind(KEY, None, reread=True, act=ANNA)
        await store.replay(KEY, 1, 1, act=Act("ben"))
        clock.advance(60)
        await store.rewatch(KEY, ANNA)
        await store.forget(KEY, ANNA)
        entries = await peer.journal(KEY)
        assert [each.operation for each in entries] == ["forget", "rewatch", "replay", "rewind"]
        rewind, replay, forget = entries[3], entries[2], entries[0]
        assert (rewind.who, rewind.why, rewind.key) == ("anna", "the warehouse was down", KEY)
        assert "from 5 to the very start" in rewind.detail
        assert (replay.who, replay.why) == ("ben", None)
        assert "1 to load" in replay.detail
        assert forget.at == clock.now()
        assert await peer.journal(KEY, limit=1) == [forget]
        assert await peer.journal() == entries
        assert await peer.journal(EU) == []

    @pytest.mark.parametrize("act", [None, ANNA], ids=["unsaid", "said"])
    async def test_an_act_on_what_is_not_there_leaves_no_entry(self, store: WatermarkStore, act: Act | None) -> None:
        """Nothing was changed, so nothing is recorded."""
        assert not await store.forget(KEY, act)
        assert await store.rewatch(KEY, act) is None
        assert await store.replay(KEY, 1, 2, act=act) == {}
        assert await store.unsubscribe(ORDERS, "load", act) == []
        assert await store.journal() == []
