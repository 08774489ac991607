"""A consumer's hands: claim, keep the lease while the work lasts, acknowledge or give back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest

from airflow_provider_incremental.core.errors import LeaseLostError, StoreUnavailableError
from airflow_provider_incremental.core.intake import Taken
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.testing.crashing import CrashingStore
from tests.miniature import Deployment

ORDERS = Selector("orders")
Say = Callable[[Taken], Awaitable[Any]]


@pytest.fixture
async def filled(deployment: Deployment) -> Deployment:
    """A deployment with two batches in the log and a consumer that is known."""
    for at in (1, 2):
        deployment.source.add(at, f"at {at}")
    deployment.trigger(limit=1)
    await deployment.run_for(1)
    await deployment.triggers[0].stop()
    await deployment.store.subscribe(ORDERS, "load", "earliest")
    return deployment


def of(taken: Taken | None) -> Taken:
    """What was taken; it must be something."""
    assert taken is not None
    return taken


async def test_nothing_to_claim(deployment: Deployment) -> None:
    """When nothing waits there is nothing to hold, and no task is left behind."""
    assert await deployment.intake().claim() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_lease_is_renewed_three_times_over(filled: Deployment) -> None:
    """Renewals come at a third of the lease, so that two may fail before it ends."""
    store = CrashingStore(filled.store)
    taken = of(await filled.intake(store).claim())
    await filled.run_for(60)
    assert store.calls.count("renew") == 3
    await filled.intake(store).acknowledge(taken)
    await filled.run_for(600)
    assert store.calls.count("renew") == 3


async def test_a_renewal_that_fails_is_tried_again(filled: Deployment) -> None:
    """A store that is away for less than the lease costs nothing."""
    store = CrashingStore(filled.store)
    taken = of(await filled.intake(store).claim())
    await filled.run_for(1)
    store.fail("before", "renew", StoreUnavailableError("gone"), times=2)
    await filled.run_for(120)
    assert await filled.store.claim(ORDERS, "load", "other", 60, taken.claim.batch.id) is None
    await filled.intake(store).acknowledge(taken)


async def test_a_lease_that_was_lost_is_told_at_the_end(filled: Deployment) -> None:
    """A worker whose store was away too long finds out when it acknowledges; it does not disturb the other one."""
    store = CrashingStore(filled.store)
    intake = filled.intake(store)
    taken = of(await intake.claim())
    await filled.run_for(1)
    store.fail("before", "renew", StoreUnavailableError("gone"), times=3)
    await filled.run_for(62)
    other = await filled.store.claim(ORDERS, "load", "other", 600, taken.claim.batch.id)
    assert other is not None
    await filled.run_for(60)
    assert taken.keeper.done()
    with pytest.raises(LeaseLostError):
        await intake.acknowledge(taken)
    await filled.store.acknowledge(other)


async def test_giving_back_makes_the_batch_free_at_once(filled: Deployment) -> None:
    """The next worker does not wait for the lease, and the keeper has stopped."""
    intake = filled.intake()
    taken = of(await intake.claim())
    await filled.run_for(1)
    await intake.give_back(taken, "ValueError: no")
    await filled.run_for(0)
    assert taken.keeper.cancelled()
    again = of(await filled.intake(holder="next").claim(taken.claim.batch.id))
    assert again.claim.attempt == 2
    again.keeper.cancel()


async def test_one_worker_may_hold_several(filled: Deployment) -> None:
    """Each batch has a keeper of its own, and ends for itself."""
    intake = filled.intake()
    first, second = of(await intake.claim()), of(await intake.claim())
    assert [each.claim.batch.seq for each in (first, second)] == [1, 2]
    await intake.acknowledge(second)
    await filled.run_for(600)
    assert await filled.store.claim(ORDERS, "load", "other", 60) is None
    await intake.acknowledge(first)
    assert await filled.store.pending(ORDERS, "load") == []


async def test_a_drivers_own_cancellation_does_not_end_the_lease(filled: Deployment) -> None:
    """A renewal whose driver cancels what it waits for is tried again like any other that failed."""
    store = CrashingStore(filled.store)

    async def cancel() -> None:
        del store.before["renew"]
        raise asyncio.CancelledError

    store.before["renew"] = cancel
    taken = of(await filled.intake(store).claim())
    await filled.run_for(120)
    assert await filled.store.claim(ORDERS, "load", "other", 60, taken.claim.batch.id) is None
    await filled.intake(store).acknowledge(taken)


async def unanswered(filled: Deployment, when: Literal["before", "after"], ending: str) -> tuple[Taken, Say]:
    """Claim a batch and end it while the store fails before or after it does so; return how to say it again."""
    store = CrashingStore(filled.store)
    intake = filled.intake(store)
    taken = of(await intake.claim())
    store.fail(when, ending, StoreUnavailableError("no answer"))
    say: Say = intake.acknowledge if ending == "acknowledge" else lambda taken: intake.give_back(taken, None)
    with pytest.raises(StoreUnavailableError):
        await say(taken)
    return taken, say


@pytest.mark.parametrize("ending", ["acknowledge", "release"])
async def test_the_lease_is_kept_until_the_store_has_answered(filled: Deployment, ending: str) -> None:
    """What failed to be finished or given back stays this holder's, who may say it again."""
    taken, say = await unanswered(filled, "before", ending)
    await filled.run_for(600)
    assert await filled.store.claim(ORDERS, "load", "other", 60, taken.claim.batch.id) is None
    await say(taken)
    await filled.run_for(0)
    assert taken.keeper.cancelled()


@pytest.mark.parametrize("ending", ["acknowledge", "release"])
async def test_a_renewal_that_comes_after_the_end_is_no_loss(
    filled: Deployment, ending: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The store did it and its answer was lost: nothing is logged of a lease, and saying it again is no error."""
    taken, say = await unanswered(filled, "after", ending)
    await filled.run_for(60)
    assert taken.keeper.done()
    await say(taken)
    assert caplog.records == []


async def test_a_lease_is_lost_when_a_renewal_said_so(filled: Deployment) -> None:
    """What the keeper found out is known at once, without another question."""
    store = CrashingStore(filled.store)
    intake = filled.intake(store)
    first, second = of(await intake.claim()), of(await intake.claim())
    store.fail("before", "renew", StoreUnavailableError("gone"), times=6)
    await filled.run_for(62)
    other = await filled.store.claim(ORDERS, "load", "other", 600, first.claim.batch.id)
    assert other is not None
    await filled.run_for(60)
    asked = store.calls.count("renew")
    assert await intake.lost([first, second]) == [first]
    assert store.calls.count("renew") == asked
    await intake.acknowledge(second)


@pytest.mark.parametrize("taken_over", [False, True])
async def test_a_lease_that_ran_out_unnoticed_is_asked_for(filled: Deployment, *, taken_over: bool) -> None:
    """A process that slept through its lease asks before it works on: the batch may be somebody else's."""
    store = CrashingStore(filled.store)
    intake = filled.intake(store)
    taken = of(await intake.claim())
    filled.clock.advance(61)  # as of a process that was stopped: the keeper had no turn
    if taken_over:
        assert await filled.store.claim(ORDERS, "load", "other", 600, taken.claim.batch.id) is not None
    store.fail("before", "renew", StoreUnavailableError("gone"))
    with pytest.raises(StoreUnavailableError):
        await intake.lost([taken])
    assert await intake.lost([taken]) == ([taken] if taken_over else [])
    assert await intake.lost([taken]) == ([taken] if taken_over else [])
    assert store.calls.count("renew") == 2
    await intake.abandon(taken)
