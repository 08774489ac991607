"""The store suite's part on a clock that was wrong: what it stamped while it was ahead binds nobody afterwards."""

from __future__ import annotations

from airflow_provider_incremental.core.store import CLOCK_TOLERANCE, WatermarkStore
from airflow_provider_incremental.testing._stage import KEY, LONG, ORDERS, confirmed, log_of, seqs, taken
from airflow_provider_incremental.testing.fakes import FakeClock

_YEAR = 365 * 86400.0


class ClockTests:
    """What a store promises when its clock is set back."""

    async def test_a_claim_of_a_time_when_the_clock_was_ahead_is_over(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A worker died while the clock was a year ahead: its batch is not kept from everybody for a year."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        clock.set_wall(_YEAR)
        await taken(store, holder="dies", lease=60)
        clock.set_wall(-_YEAR)
        assert seqs(await store.pending(ORDERS, "load", free=True)) == [1]
        again = await store.claim(ORDERS, "load", "lives", 60, ordered=True)
        assert again is not None
        assert again.attempt == 2
        await store.acknowledge(again)

    async def test_a_lease_renewed_while_the_clock_was_ahead_is_over(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """The same when only the renewal was of the wrong time; one in the right time makes the lease good again."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        clock.set_wall(_YEAR)
        claim = await store.renew(claim, 60)
        clock.set_wall(-_YEAR)
        assert seqs(await store.pending(ORDERS, "load", free=True)) == [1]
        await store.renew(claim, 60)
        assert await store.claim(ORDERS, "load", "other", 60) is None
        clock.advance(60)
        assert (await taken(store, holder="other")).attempt == 2

    async def test_a_wait_that_began_while_the_clock_was_ahead_is_over(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A batch that failed then does not wait for a year before it is tried again."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        clock.set_wall(_YEAR)
        await store.release(claim, "failed", retry_after=60)
        assert await store.claim(ORDERS, "load", "early", 60) is None
        clock.set_wall(-_YEAR)
        assert (await taken(store)).attempt == 2

    async def test_hopeless_batches_of_a_time_when_the_clock_was_ahead_are_buried(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """Upkeep as well does not take such a claim for one that is held."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        clock.set_wall(_YEAR)
        await taken(store, lease=60)
        assert await store.bury(ORDERS, "load", 1) == []
        clock.set_wall(-_YEAR)
        assert [each.batch.seq for each in await store.bury(ORDERS, "load", 1)] == [1]

    async def test_what_was_confirmed_while_the_clock_was_ahead_is_announced_again(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A consumer that lags is called all the same, and only until the next confirmation."""
        batches = await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        clock.set_wall(_YEAR)
        await confirmed(store, *batches)
        assert await store.due(KEY, LONG) == []
        clock.set_wall(-_YEAR)
        assert seqs(await store.due(KEY, LONG)) == [1, 2]
        await confirmed(store, *batches)
        assert await store.due(KEY, LONG) == []
        clock.advance(LONG)
        assert seqs(await store.due(KEY, LONG)) == [1, 2]

    async def test_a_claim_of_a_time_when_the_clock_was_ahead_holds_up_no_announcement(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A consumer with such a lease counts as one that holds none."""
        batches = await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        await confirmed(store, *batches)
        clock.set_wall(_YEAR)
        await taken(store, lease=LONG)
        clock.set_wall(-_YEAR)
        clock.advance(LONG)
        assert seqs(await store.due(KEY, LONG)) == [1, 2]

    async def test_a_small_step_of_the_clock_ends_no_lease(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Clocks are corrected by seconds: nobody loses a batch, and nothing is announced a second time, by that."""
        batches = await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await taken(store, lease=60)
        await confirmed(store, *batches)
        clock.set_wall(-CLOCK_TOLERANCE)
        assert await store.due(KEY, LONG) == []
        assert seqs(await store.pending(ORDERS, "load", free=True)) == [2]
        await store.acknowledge(claim)
