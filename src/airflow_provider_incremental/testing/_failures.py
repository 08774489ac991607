"""The store suite's part on failures: delays, order, and batches that are set aside as dead."""

from __future__ import annotations

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._stage import (
    EU,
    KEY,
    ORDERS,
    appended,
    confirmed,
    done,
    log_of,
    next_claim,
    seqs,
    status_of,
    taken,
    waiting,
)
from airflow_provider_incremental.testing.fakes import FakeClock


class FailureTests:
    """What a store promises of batches that their consumer fails at."""

    async def test_a_batch_that_waits_to_be_tried_again_is_left_alone(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """Until then nobody gets it and nobody is told of it; the others go on."""
        batches = await log_of(store, 2)
        await confirmed(store, *batches)
        await store.subscribe(ORDERS, "load", "earliest")
        await store.release(await taken(store), "failed", retry_after=100)
        clock.advance(50)
        assert seqs(await store.due(KEY, 10)) == [2]
        assert await waiting(store) == [1, 2]
        assert seqs(await store.pending(ORDERS, "load", free=True)) == [2]
        assert (await taken(store)).batch.seq == 2
        assert await next_claim(store) is None
        clock.advance(60)
        assert seqs(await store.due(KEY, 10)) == [1, 2]
        assert (await taken(store)).attempt == 2

    async def test_only_failures_count_as_attempts(self, store: WatermarkStore) -> None:
        """A batch that was given back without an error is as if it had not been taken."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        for _ in range(3):
            claim = await taken(store)
            assert claim.attempt == 1
            await store.release(claim)
        await store.release(await taken(store), "failed")
        assert (await taken(store)).attempt == 2

    async def test_ordered_claims_never_overtake(self, store: WatermarkStore, clock: FakeClock) -> None:
        """While the oldest batch is held or waits, there is none to be had; each watermark has its own order."""
        await log_of(store, 3)
        clock.advance(1)
        await appended(store, "other", key=EU)
        await store.subscribe(ORDERS, "load", "earliest")
        first = await store.claim(ORDERS, "load", "worker-1", 60.0, ordered=True)
        assert first is not None
        assert first.batch.seq == 1
        other = await next_claim(store, ordered=True)
        assert other is not None
        assert other.batch.key == EU
        assert await next_claim(store, ordered=True) is None
        assert await store.claim(ORDERS, "load", "worker-2", 60.0, first.batch.id, ordered=True) is None
        mine = await store.claim(ORDERS, "load", "worker-1", 60.0, ordered=True)  # who has the first may go on
        assert mine is not None
        assert mine.batch.seq == 2
        await store.release(mine)
        await store.release(first, "failed", retry_after=100)
        assert await next_claim(store, ordered=True) is None
        clock.advance(101)
        again = await next_claim(store, ordered=True)
        assert again is not None
        assert (again.batch.seq, again.attempt) == (1, 2)
        await store.acknowledge(again)
        following = await next_claim(store, ordered=True)
        assert following is not None
        assert following.batch.seq == 2

    async def test_a_dead_batch_is_set_aside_and_listed(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """It is finished for its consumer, in order too, and nobody else's affair."""
        batches = await log_of(store, 2)
        await confirmed(store, *batches)
        for consumer in ("load", "mail"):
            await store.subscribe(ORDERS, consumer, "earliest")
        clock.advance(5)
        await store.release(await taken(store), "bad row", dead=True)
        died = clock.now()
        await done(store, 2, "mail")
        clock.advance(100)
        assert await waiting(store) == [2]
        assert seqs(await store.due(KEY, 10)) == [2]
        assert not await store.acknowledged(ORDERS, "load", batches[0].id)
        [dead] = await peer.dead_batches(ORDERS)
        assert (dead.batch.seq, dead.batch.id, dead.batch.items) == (1, batches[0].id, None)
        assert (dead.consumer, dead.attempts, dead.error, dead.since) == ("load", 1, "bad row", died)
        status = await status_of(store)
        assert (status.done_seq, status.pending, status.dead) == (1, 1, 1)
        following = await next_claim(store, ordered=True)
        assert following is not None
        assert following.batch.seq == 2
        assert await peer.dead_batches(ORDERS, "mail") == []
        assert seqs([each.batch for each in await peer.dead_batches(consumer="load")]) == [1]

    async def test_a_batch_that_kills_its_workers_is_buried(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Workers that die give nothing back: what was taken so often is set aside, and only that."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        for attempt in (1, 2):
            assert await store.bury(ORDERS, "load", 2) == []
            assert (await taken(store, holder=f"worker-{attempt}")).attempt == attempt
            clock.advance(61)
        [dead] = await store.bury(ORDERS, "load", 2)
        assert (dead.batch.seq, dead.attempts, dead.consumer) == (1, 2, "load")
        assert dead.error
        assert await store.bury(ORDERS, "load", 2) == []
        assert seqs([each.batch for each in await store.dead_batches()]) == [1]
        assert (await taken(store)).batch.seq == 2
        assert await store.bury(ORDERS, "load", 1) == []  # it is held

    async def test_who_comes_back_late_has_still_finished_it(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A worker that was taken for dead and has finished after all is believed: the batch is not dead any more."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store)
        clock.advance(61)
        assert len(await store.bury(ORDERS, "load", 1)) == 1
        await store.acknowledge(claim)
        assert await store.dead_batches() == []
        assert await store.acknowledged(ORDERS, "load", claim.batch.id)
