"""The store suite's part on leases: a batch is one holder's for a time, then anybody's, and never returns when done."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._stage import KEY, ORDERS, done, log_of, seqs, taken
from airflow_provider_incremental.testing.fakes import FakeClock


class LeaseTests:
    """What a store promises of leases."""

    async def test_renew_extends_from_now(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A renewed lease lasts so many seconds from the renewal, and nobody takes the batch meanwhile."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        for _ in range(3):
            clock.advance(50)
            claim = await store.renew(claim, 60)
            assert (claim.lease_until - clock.now()).total_seconds() == pytest.approx(60)
            assert claim.attempt == 1
            assert await store.claim(ORDERS, "load", "other", 60) is None
        clock.advance(60)
        assert (await taken(store, holder="other")).attempt == 2

    async def test_renew_of_a_lease_that_ran_out_but_that_nobody_took(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A worker that was slow to renew keeps its batch when nobody else wanted it."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        clock.advance(90)
        await store.renew(claim, 60)
        assert await store.claim(ORDERS, "load", "other", 60) is None

    @pytest.mark.parametrize("ending", ["acknowledge", "release"])
    async def test_renew_of_what_is_over_is_refused(self, store: WatermarkStore, ending: str) -> None:
        """A lease is not brought back by a renewal that comes after the batch was finished or given back."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store)
        await getattr(store, ending)(claim)
        with pytest.raises(LeaseLostError):
            await store.renew(claim, 60)
        assert (await store.claim(ORDERS, "load", "other", 60) is None) == (ending == "acknowledge")

    @pytest.mark.parametrize("ended", [False, True])
    async def test_a_lost_lease_can_do_nothing(self, store: WatermarkStore, clock: FakeClock, *, ended: bool) -> None:
        """Who lost a batch to another worker can neither renew nor finish it, nor give it back for the other."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        lost = await taken(store, holder="slow", lease=60)
        clock.advance(60)
        mine = await taken(store, holder="quick", lease=60)
        if ended:
            await store.acknowledge(mine)
        with pytest.raises(LeaseLostError):
            await store.renew(lost, 60)
        with pytest.raises(LeaseLostError):
            await store.acknowledge(lost)
        await store.release(lost, "never seen")
        assert await store.claim(ORDERS, "load", "third", 60) is None
        if not ended:
            await store.renew(mine, 60)
            await store.acknowledge(mine)
        assert await store.acknowledged(ORDERS, "load", mine.batch.id)

    async def test_acknowledge_is_for_good(self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock) -> None:
        """A finished batch never returns to its consumer: not by time, not by name, not by a rewind."""
        batches = await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 2)
        clock.advance(10**6)
        await store.rewind(KEY, None, reread=True)
        await store.subscribe(ORDERS, "load", "earliest", [batches[0].id])
        assert await peer.claim(ORDERS, "load", "w", 60) is None
        assert await peer.claim(ORDERS, "load", "w", 60, batches[0].id) is None
        assert await peer.pending(ORDERS, "load") == []

    async def test_acknowledge_twice_is_once(self, store: WatermarkStore) -> None:
        """A retried acknowledgement, whose first answer was lost, is no error."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store)
        await store.acknowledge(claim)
        await store.acknowledge(claim)
        await store.release(claim, "too late")
        assert seqs(await store.pending(ORDERS, "load")) == [2]

    async def test_acknowledge_after_the_lease_ran_out(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Work that took too long still counts when nobody else took the batch."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        clock.advance(600)
        await store.acknowledge(claim)
        assert await store.claim(ORDERS, "load", "other", 60) is None

    async def test_acknowledge_after_a_renewal_with_the_first_claim(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A renewal makes no new claim: whoever holds the first one can still finish."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store)
        clock.advance(30)
        await store.renew(claim, 60)
        await store.acknowledge(claim)
        assert await store.acknowledged(ORDERS, "load", claim.batch.id)

    async def test_acknowledge_out_of_order(self, store: WatermarkStore) -> None:
        """Batches may be finished in any order; each is asked for until it is done itself."""
        await log_of(store, 4)
        await store.subscribe(ORDERS, "load", "earliest")
        claims = [await taken(store, holder=f"w{number}") for number in range(4)]
        for number, left in ((2, [1, 2, 4]), (0, [2, 4]), (3, [2]), (1, [])):
            await store.acknowledge(claims[number])
            assert seqs(await store.pending(ORDERS, "load")) == left

    async def test_release_gives_the_batch_back_at_once(self, store: WatermarkStore) -> None:
        """A batch that was given back is next again, as another attempt."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        for attempt in (1, 2, 3):
            claim = await taken(store, holder=f"w{attempt}")
            assert (claim.batch.seq, claim.attempt) == (1, attempt)
            await store.release(claim, "ValueError: it's \U0001f600 'quoted' \x00 \ud800")
        await store.release(claim)
        assert seqs(await store.pending(ORDERS, "load")) == [1, 2]
