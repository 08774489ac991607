"""A poll that takes long, or for ever, holds up nothing but itself."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.polls import LONGEST_POLL
from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing.fakes import FakeClock, ListSource
from tests.miniature import KEY, Deployment


class SlowSource(ListSource):
    """Takes as many seconds for each poll as the test says; 0 for those that it says nothing of."""

    def __init__(self, clock: FakeClock, *seconds: float) -> None:
        super().__init__()
        self.clock = clock
        self.seconds = list(seconds)
        self.returned: list[float] = []

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Read at once, and return in time."""
        found = await super().poll(low, limit, seen)
        if self.seconds:
            await self.clock.sleep(self.seconds.pop(0))
        self.returned.append(self.clock.monotonic())
        return found


async def test_what_was_committed_is_announced_while_a_poll_takes_long(deployment: Deployment) -> None:
    """Also once more, to a consumer that does not come: the poll after the first never returns."""
    source = SlowSource(deployment.clock, 0, 10**9)
    source.add(1, "a")
    deployment.trigger(source=source, announce_interval=30.0, redeliver_after=300.0)
    await deployment.run_for(0)
    await deployment.store.subscribe(Selector("orders"), "load", "earliest")
    await deployment.run_for(1000)
    assert deployment.announced() == [1] * 4
    assert len(source.polls) == 2


async def test_what_a_long_poll_finds_is_announced_at_once(deployment: Deployment) -> None:
    """Though what is due was asked for before it committed, and answered after that."""
    source = SlowSource(deployment.clock, 0, 20)
    source.add(1, "a")
    trigger = deployment.trigger(source=source, poll_interval=1000.0, announce_interval=1.0, redeliver_after=1000.0)
    await deployment.run_for(900)
    source.add(2, "b")
    due = trigger.store.due

    async def answers_late(*arguments: Any) -> list[Batch]:
        found = await due(*arguments)
        await deployment.clock.sleep(30)
        trigger.store.due = due
        return found

    trigger.store.due = answers_late
    await deployment.run_for(130)
    assert source.returned == [0, 1020]
    assert deployment.announced() == [1]
    await deployment.run_for(10)
    assert deployment.announced() == [1, 2]


async def test_a_poll_that_never_returns_is_broken_off_and_shown(deployment: Deployment) -> None:
    """Somebody who looks at the status sees why nothing came, and the next poll reads what is there."""
    source = SlowSource(deployment.clock, 10**9)
    source.add(1, "a")
    deployment.trigger(source=source)
    await deployment.run_for(LONGEST_POLL - 1)
    assert len(source.polls) == 1
    await deployment.run_for(5)
    status = (await deployment.watermark()).status
    assert status.last_error is not None
    assert "over 6 hours" in status.last_error
    assert status.failures == 1
    await deployment.run_for(100)
    assert await deployment.logged() == ["a"]
    assert (await deployment.watermark()).status.failures == 0


async def test_what_an_abandoned_poll_finds_is_not_used(deployment: Deployment) -> None:
    """A poll that ends while nobody looks is one like any other; one that was broken off commits nothing."""
    source = SlowSource(deployment.clock, 100)
    source.add(1, "a")
    trigger = deployment.trigger(source=source)
    await deployment.run_for(50)
    await trigger.stop()
    await deployment.run_for(1000)
    assert source.returned == []
    assert await deployment.logged() == []


async def test_a_poll_that_is_cancelled_from_within_is_a_failed_poll(deployment: Deployment) -> None:
    """A library that cancels the task it runs in does not end the trigger."""
    deployment.source.add(1, "a")

    async def cancel() -> None:
        deployment.source.before_return = None
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    deployment.source.before_return = cancel
    trigger = deployment.trigger()
    await deployment.run_for(1)
    assert "cancelled" in str((await deployment.watermark()).status.last_error)
    await deployment.run_for(100)
    assert not trigger.task.done()
    assert deployment.announced() == [1]


async def test_what_was_in_flight_before_a_forget_confirms_nothing_after_it(deployment: Deployment) -> None:
    """The batches of a watermark that was forgotten and made again are announced although numbers repeat."""
    deployment.source.add(1, "a")
    deployment.trigger(poll_interval=1.0, announce_interval=1.0)
    await deployment.run_for(0)
    assert deployment.announced() == [1]
    await deployment.store.forget(KEY)
    await deployment.run_for(1.5)
    [new] = await deployment.store.history(KEY)
    await deployment.run_for(60)
    assert new.id in {batch.id for event in deployment.events for batch in event.batches}
