"""The store suite's part on consumers: who is known, which batch is next, what is left to do."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.testing._stage import (
    KEY,
    NOTHING,
    ORDERS,
    WATCHES,
    appended,
    confirmed,
    done,
    log_of,
    seqs,
    slice_of,
    taken,
)
from airflow_provider_incremental.testing.fakes import FakeClock

EAST = WatermarkKey("orders", "east", "one")
WEST = WatermarkKey("orders", "west", "one")
STRANGER = WatermarkKey("customers", "east", "one")


class ConsumerTests:
    """What a store promises of consumers."""

    async def test_a_consumer_from_the_earliest_gets_the_whole_log(self, store: WatermarkStore) -> None:
        """A new consumer at "earliest" has every batch to do, those to come as well."""
        await log_of(store, 2)
        assert await store.subscribe(ORDERS, "load", "earliest") == [KEY]
        await appended(store, "c")
        assert seqs(await store.pending(ORDERS, "load")) == [1, 2, 3]

    async def test_a_consumer_from_the_latest_gets_what_comes(self, store: WatermarkStore) -> None:
        """A new consumer at "latest" has only those batches to do that are committed from now on."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "latest")
        assert await store.pending(ORDERS, "load") == []
        assert await store.claim(ORDERS, "load", "w", 60) is None
        await appended(store, "c")
        assert seqs(await store.pending(ORDERS, "load")) == [3]

    async def test_a_consumer_from_the_latest_gets_what_started_its_run(self, store: WatermarkStore) -> None:
        """A new consumer at "latest" begins right before the oldest batch that its event named."""
        batches = await log_of(store, 4)
        named = [batches[2].id, batches[1].id, "0" * 32]
        await store.subscribe(ORDERS, "load", "latest", named)
        assert seqs(await store.pending(ORDERS, "load")) == [2, 3, 4]

    async def test_what_followed_the_batch_that_started_the_run_is_wanted_too(self, store: WatermarkStore) -> None:
        """Also what everybody else has finished: from the oldest named batch on, all that is in the log."""
        batches = await log_of(store, 12)
        await confirmed(store, *batches)
        await store.subscribe(ORDERS, "mail", "earliest")
        await done(store, 12, "mail")
        await store.subscribe(ORDERS, "load", "latest", [batches[5].id, batches[1].id])
        assert seqs(await store.pending(ORDERS, "load")) == list(range(2, 13))

    async def test_named_batches_count_on_their_own_watermark(self, store: WatermarkStore) -> None:
        """What an event names of one watermark does not change where the consumer begins on another."""
        east = [await appended(store, number, key=EAST) for number in range(3)]
        await log_of(store, 3, key=WEST)
        await store.subscribe(ORDERS, "load", "latest", [east[1].id])
        assert [(each.key, each.seq) for each in await store.pending(ORDERS, "load")] == [(EAST, 2), (EAST, 3)]

    async def test_a_known_consumer_stays_where_it_is(self, store: WatermarkStore) -> None:
        """Subscribing again, with whatever start, neither repeats nor skips a batch."""
        batches = await log_of(store, 3)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        for named in ([], [batches[0].id], [batches[2].id]):
            assert await store.subscribe(ORDERS, "load", "latest", named) == [KEY]
            assert await store.subscribe(ORDERS, "load", "earliest", named) == [KEY]
            assert seqs(await store.pending(ORDERS, "load")) == [2, 3]

    async def test_subscribe_answers_with_the_selected_watermarks(self, store: WatermarkStore) -> None:
        """All of an asset, or those of one namespace or key; none when nothing is registered; no other asset's."""
        assert await store.subscribe(ORDERS, "load", "earliest") == []
        for key in (WEST, EAST, STRANGER):
            await log_of(store, 1, key=key)
        assert await store.subscribe(Selector("orders", namespace="west"), "load", "earliest") == [WEST]
        assert [each.key for each in await store.pending(ORDERS, "load")] == [WEST]
        assert await store.subscribe(Selector("orders", key="one"), "load", "earliest") == [EAST, WEST]
        assert {each.key for each in await store.pending(ORDERS, "load")} == {EAST, WEST}
        assert await store.pending(Selector("customers"), "load") == []

    async def test_subscribe_at_once_makes_one_consumer(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Mapped tasks that start together all find the consumer known, and none of them fails."""
        await log_of(store, 1)
        answers = await asyncio.gather(*(each.subscribe(ORDERS, "load", "earliest") for each in [store, peer] * 4))
        assert answers == [[KEY]] * 8
        assert seqs(await store.pending(ORDERS, "load")) == [1]

    async def test_nothing_is_claimed_by_a_stranger(self, store: WatermarkStore) -> None:
        """A consumer that never subscribed has nothing to do."""
        await log_of(store, 1)
        assert await store.claim(ORDERS, "load", "w", 60) is None
        assert await store.pending(ORDERS, "load") == []

    async def test_claim_takes_the_oldest_with_its_items(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A claim carries the batch with its items, who holds it, since which attempt, and until when."""
        [first, _] = await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, holder="worker-1", lease=60)
        assert (claim.batch.id, claim.batch.seq, claim.batch.items) == (first.id, 1, ["item 0"])
        assert (claim.consumer, claim.holder, claim.attempt) == ("load", "worker-1", 1)
        assert (claim.lease_until - clock.now()).total_seconds() == pytest.approx(60)

    async def test_claim_goes_by_commit_time_over_watermarks(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Of several watermarks of an asset the batch that was committed first is next, whatever its number."""
        order = [WEST, WEST, EAST, WEST, EAST]
        for key in order:
            await appended(store, "item", key=key)
            clock.advance(1)
        await store.subscribe(ORDERS, "load", "earliest")
        assert [each.key for each in await store.pending(ORDERS, "load")] == order
        assert [claim.batch.key for claim in await done(store, 5)] == order

    async def test_claim_goes_by_number_within_one_commit(self, store: WatermarkStore) -> None:
        """Batches of one instant go by their numbers, also beyond nine."""
        watermark = await store.register(KEY, WATCHES)
        await store.commit(watermark, 1, [slice_of(None, 1, [number]) for number in range(12)], NOTHING)
        await store.subscribe(ORDERS, "load", "earliest")
        assert [claim.batch.seq for claim in await done(store, 12)] == list(range(1, 13))

    async def test_claim_obeys_the_selector(self, store: WatermarkStore) -> None:
        """A task that asks for one namespace gets nothing of another."""
        for key in (EAST, WEST):
            await log_of(store, 1, key=key)
        await store.subscribe(ORDERS, "load", "earliest")
        west = Selector("orders", namespace="west")
        claim = await store.claim(west, "load", "w", 60)
        assert claim is not None
        assert claim.batch.key == WEST
        assert await store.claim(west, "load", "w", 60) is None
        assert [each.key for each in await store.pending(west, "load")] == [WEST]

    async def test_claim_never_takes_a_baseline(self, store: WatermarkStore) -> None:
        """What was there before the start is nobody's work, not even by name."""
        baseline = await appended(store, kind="baseline")
        await store.subscribe(ORDERS, "load", "earliest")
        assert await store.pending(ORDERS, "load") == []
        assert await store.claim(ORDERS, "load", "w", 60) is None
        assert await store.claim(ORDERS, "load", "w", 60, baseline.id) is None

    async def test_claim_passes_over_what_is_held(self, store: WatermarkStore) -> None:
        """A second worker of the consumer gets the next batch, and none when all are held."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        assert [(await taken(store, holder=f"w{number}")).batch.seq for number in (1, 2)] == [1, 2]
        assert await store.claim(ORDERS, "load", "w3", 60) is None
        assert seqs(await store.pending(ORDERS, "load")) == [1, 2]

    async def test_claims_at_once_never_get_the_same_batch(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Of all workers that claim together, as many as there are batches get one each; the others get none."""
        for _ in range(3):
            await log_of(store, 4)
            await store.subscribe(ORDERS, "load", "earliest")
            claims = await asyncio.gather(
                *(
                    each.claim(ORDERS, "load", f"worker-{number}", 60)
                    for number, each in enumerate([store, peer, store, peer, store, peer])
                )
            )
            got = [claim for claim in claims if claim is not None]
            assert sorted(claim.batch.seq for claim in got) == seqs(await store.pending(ORDERS, "load"))
            for claim in got:
                await store.acknowledge(claim)

    async def test_consumers_do_not_share_claims(self, store: WatermarkStore) -> None:
        """Each consumer has every batch to do, whatever the others hold or have done."""
        await log_of(store, 1)
        for consumer in ("load", "Load", "audit"):
            await store.subscribe(ORDERS, consumer, "earliest")
            claim = await taken(store, consumer)
            assert claim.attempt == 1
            await store.acknowledge(claim)

    async def test_a_lease_that_ran_out_is_nobodys(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A dead worker's batch comes back, first in order, as the next attempt."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        await taken(store, holder="dead", lease=60)
        clock.advance(59)
        assert (await taken(store, holder="w2")).batch.seq == 2
        clock.advance(1)
        claim = await taken(store, holder="w3")
        assert (claim.batch.seq, claim.attempt, claim.holder) == (1, 2, "w3")

    async def test_claim_by_id_takes_that_batch_or_none(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A mapped task gets the batch it was made for, out of order, unless it is held, done or not its own."""
        batches = await log_of(store, 3)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await store.claim(ORDERS, "load", "w1", 60, batches[1].id)
        assert claim is not None
        assert (claim.batch.seq, claim.batch.items) == (2, ["item 1"])
        assert await store.claim(ORDERS, "load", "w2", 60, batches[1].id) is None
        clock.advance(60)
        again = await store.claim(ORDERS, "load", "w2", 60, batches[1].id)
        assert again is not None
        assert again.attempt == 2
        await store.acknowledge(again)
        assert await store.claim(ORDERS, "load", "w3", 60, batches[1].id) is None
        assert await store.claim(ORDERS, "load", "w3", 60, "0" * 32) is None
        assert await store.claim(Selector("customers"), "load", "w3", 60, batches[0].id) is None
        assert seqs(await store.pending(ORDERS, "load")) == [1, 3]

    async def test_claim_by_id_stays_within_what_the_consumer_began_with(self, store: WatermarkStore) -> None:
        """A batch from before the consumer's start is not its own, though somebody names it."""
        [before] = await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "latest")
        assert await store.claim(ORDERS, "load", "w", 60, before.id) is None

    async def test_pending_lists_without_items_up_to_a_limit(self, store: WatermarkStore) -> None:
        """The work of a consumer, oldest first, as it was committed; items are for whoever claims."""
        batches = await log_of(store, 11)
        await store.subscribe(ORDERS, "load", "earliest")
        assert await store.pending(ORDERS, "load") == batches
        assert await store.pending(ORDERS, "load", limit=10) == batches[:10]

    async def test_acknowledged_answers_for_one_consumer_and_batch(self, store: WatermarkStore) -> None:
        """Only what this consumer finished counts: not what it holds, gave back, or what another one finished."""
        batches = await log_of(store, 3)
        for consumer in ("load", "audit"):
            await store.subscribe(ORDERS, consumer, "earliest")
        await done(store, 1)
        await taken(store)
        await store.release(await taken(store, holder="w2"), "failed")
        assert [await store.acknowledged(ORDERS, "load", each.id) for each in batches] == [True, False, False]
        assert not await store.acknowledged(ORDERS, "audit", batches[0].id)
        assert not await store.acknowledged(ORDERS, "load", "0" * 32)
        assert not await store.acknowledged(Selector("customers"), "load", batches[0].id)

    async def test_what_a_consumer_did_not_begin_with_is_not_acknowledged(self, store: WatermarkStore) -> None:
        """A batch from before the consumer's start was never finished by it."""
        [before] = await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "latest")
        await appended(store, "b")
        await done(store, 1)
        assert not await store.acknowledged(ORDERS, "load", before.id)
