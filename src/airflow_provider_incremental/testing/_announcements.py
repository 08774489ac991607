"""The store suite's part on announcements: one at a time, at their pace, and of what is still worth announcing."""

from __future__ import annotations

import asyncio

from airflow_provider_incremental.core.store import RETURNS_WITHIN, WatermarkStore
from airflow_provider_incremental.testing._stage import KEY, ORDERS, done, log_of, seqs, taken, told
from airflow_provider_incremental.testing.fakes import FakeClock

REDELIVER = 300.0


class AnnouncementTests:
    """What a store promises of announcements."""

    async def test_due_until_announced_though_acknowledged(self, store: WatermarkStore) -> None:
        """A consumer that is faster than the announcement does not hide it from whoever reads events only."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_not_due_when_announced_and_acknowledged(self, store: WatermarkStore, clock: FakeClock) -> None:
        """What was announced and then acknowledged by every known consumer is not due, confirmed or not."""
        await log_of(store, 3)
        for consumer in ("load", "audit"):
            await store.subscribe(ORDERS, consumer, "earliest")
        assert await store.begin_announcement(KEY, 2, 30) == 0
        await done(store, 3, "load")
        assert seqs(await store.due(KEY, REDELIVER)) == [1, 2, 3]
        await done(store, 1, "audit")
        assert seqs(await store.due(KEY, REDELIVER)) == [2, 3]
        await done(store, 2, "audit")
        assert seqs(await store.due(KEY, REDELIVER)) == [3]
        assert await store.begin_announcement(KEY, 3, 30) == 30
        assert seqs(await store.due(KEY, REDELIVER)) == [3]
        assert [each.announced_at for each in await store.history(KEY)] == [None, clock.now(), clock.now()]
        clock.advance(30)
        assert await store.begin_announcement(KEY, 3, 30) == 0
        assert await store.due(KEY, REDELIVER) == []

    async def test_due_again_when_a_consumer_comes_after_all_acknowledged(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A consumer that begins with the whole log has not been told of what the others have finished."""
        await log_of(store, 1)
        await store.begin_announcement(KEY, 1, 30)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        assert await store.due(KEY, REDELIVER) == []
        await store.subscribe(ORDERS, "audit", "earliest")
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_due_while_a_consumer_that_is_not_concerned_is_known(self, store: WatermarkStore) -> None:
        """A consumer that begins with the latest has not acknowledged what came before."""
        await log_of(store, 1)
        await store.begin_announcement(KEY, 1, 30)
        await store.subscribe(ORDERS, "load", "latest")
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_not_due_again_for_a_consumer_that_is_gone(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A consumer that was not seen for the time in which it may return is not called again, until it returns."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        await store.begin_announcement(KEY, 1, 30)
        await told(store, 1)
        clock.advance(RETURNS_WITHIN - 1)
        assert seqs(await store.due(KEY, REDELIVER)) == [1]
        clock.advance(1)
        assert await store.due(KEY, REDELIVER) == []
        assert seqs(await store.pending(ORDERS, "load")) == [1]
        await store.subscribe(ORDERS, "load", "earliest")
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_a_consumer_is_seen_when_it_acknowledges(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A run that works for longer than that is called again for what it has not come to."""
        await log_of(store, 2)
        await store.subscribe(ORDERS, "load", "earliest")
        await told(store, 1, 2)
        claim = await taken(store)
        clock.advance(RETURNS_WITHIN)
        assert await store.due(KEY, REDELIVER) == []
        await store.acknowledge(claim)
        assert seqs(await store.due(KEY, REDELIVER)) == [2]

    async def test_a_consumer_that_is_gone_keeps_nobody_from_being_done(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """What was announced and acknowledged by every consumer that may return is not due, confirmed or not."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "renamed", "earliest")
        clock.advance(RETURNS_WITHIN)
        await store.subscribe(ORDERS, "load", "earliest")
        await store.begin_announcement(KEY, 1, 30)
        await done(store, 1)
        assert await store.due(KEY, REDELIVER) == []
        clock.advance(30)
        await store.begin_announcement(KEY, 1, 30)
        assert (await store.history(KEY))[0].announced_at == clock.now()
        clock.advance(RETURNS_WITHIN)
        await store.subscribe(ORDERS, "renamed", "earliest")
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_one_announcement_an_interval(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """Whoever asks within the interval is told how long to wait; of all who ask at once, one may announce."""
        await log_of(store, 1)
        answers = await asyncio.gather(*(each.begin_announcement(KEY, 1, 30) for each in [store, peer] * 3))
        assert sorted(answers) == [0] + [30] * 5
        clock.advance(12)
        assert await peer.begin_announcement(KEY, 1, 30) == 18
        assert await peer.begin_announcement(KEY, 1, 12) == 0
        assert await store.begin_announcement(KEY, 1, 30) == 30
        assert await store.begin_announcement(KEY, 1, 0) == 0

    async def test_an_announcement_of_what_is_not_there_waits(self, store: WatermarkStore) -> None:
        """A watermark that was forgotten meanwhile is not announced, and none is made."""
        assert await store.begin_announcement(KEY, 1, 30) == 30
        assert await store.load(KEY) is None

    async def test_the_longest_times(self, store: WatermarkStore) -> None:
        """Ten years, the longest time that a trigger takes, is a time like any other."""
        ten_years = 10 * 366 * 86400.0
        await log_of(store, 1)
        assert seqs(await store.due(KEY, ten_years)) == [1]
        assert await store.begin_announcement(KEY, 1, ten_years) == 0
        await told(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        assert await store.due(KEY, ten_years) == []
        assert (await taken(store, lease=ten_years)).batch.seq == 1
