"""Every crash point between poll, commit, announce, confirm, claim and acknowledge: nothing lost, nothing repeated."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from tests.miniature import Deployment

ITEMS = ["a", "b", "c", "d", "e"]
TRIGGER_CRASHES = [
    ("before", "load"),
    ("after", "load"),
    ("before", "register"),
    ("after", "register"),
    ("before", "commit"),
    ("after", "commit"),
    ("before", "due"),
    ("after", "due"),
    ("before", "identity"),
    ("after", "identity"),
    ("before", "begin_announcement"),
    ("after", "begin_announcement"),
    ("before", "confirm"),
    ("after", "confirm"),
]
CONSUMER_CRASHES = [
    ("before", "subscribe"),
    ("after", "subscribe"),
    ("before", "claim"),
    ("after", "claim"),
    ("before", "acknowledge"),
    ("after", "acknowledge"),
]


def fill(deployment: Deployment) -> None:
    """Five items, two of them with one time, and room for two in a batch."""
    for at, name in zip([1, 2, 2, 3, 4], ITEMS, strict=True):
        deployment.source.add(at, name)


async def assert_everything_once(deployment: Deployment) -> None:
    """Every item is in the log once and in an event, in order, and the log is fully confirmed."""
    assert await deployment.logged() == ITEMS
    assert sorted(set(deployment.announced())) == [1, 2, 3]
    assert (await deployment.watermark()).cursor == (4, "e")
    assert all(batch.announced_at for batch in await deployment.store.history((await deployment.watermark()).key))


@pytest.mark.parametrize(("when", "operation"), TRIGGER_CRASHES)
async def test_a_new_trigger_that_dies_at(deployment: Deployment, when: str, operation: str) -> None:
    """Killed around any operation of its first polls: after a restart every item was found and told, once."""
    fill(deployment)
    first = deployment.trigger(limit=2)
    first.store.die(when, operation)
    await deployment.run_for(600)
    assert first.died
    second = deployment.trigger(limit=2)
    await deployment.run_for(600)
    assert not second.task.done()
    await assert_everything_once(deployment)
    await deployment.work()
    assert deployment.processed == ITEMS


@pytest.mark.parametrize(("when", "operation"), [crash for crash in TRIGGER_CRASHES if crash[1] != "register"])
async def test_an_old_trigger_that_dies_at(deployment: Deployment, when: str, operation: str) -> None:
    """Killed around any operation after it has delivered: only what came since is found and told by the next one."""
    deployment.source.add(0, "old")
    first = deployment.trigger(limit=2)
    await deployment.run_for(100)
    assert deployment.announced() == [1]
    fill(deployment)
    first.store.die(when, operation)
    await deployment.run_for(600)
    assert first.died
    deployment.trigger(limit=2)
    await deployment.run_for(600)
    assert await deployment.logged() == ["old", *ITEMS]
    assert deployment.announced()[0] == 1
    assert set(deployment.announced()[1:]) == {2, 3, 4}
    await deployment.work()
    assert deployment.processed == ["old", *ITEMS]


async def test_a_trigger_that_dies_between_poll_and_commit(deployment: Deployment) -> None:
    """What was read and not committed is read again by the next process."""
    fill(deployment)
    first = deployment.trigger(limit=2)

    async def die() -> None:
        first.store.dead = True
        raise ProcessDied

    deployment.source.before_return = die
    await deployment.run_for(100)
    assert first.died
    assert await deployment.logged() == []
    deployment.source.before_return = None
    deployment.trigger(limit=2)
    await deployment.run_for(100)
    await assert_everything_once(deployment)


async def test_a_trigger_that_dies_right_after_its_yield(deployment: Deployment) -> None:
    """An event that never reached Airflow leaves its batches due: the next process announces them."""
    fill(deployment)
    first = deployment.trigger(airflow="kills", limit=2)
    await deployment.run_for(100)
    assert first.died
    assert [sorted(each.seqs) for each in first.yielded] == [[1]]
    assert deployment.events == []
    deployment.trigger(limit=2)
    await deployment.run_for(100)
    await assert_everything_once(deployment)


@pytest.mark.parametrize("processed", [True, False])
async def test_a_trigger_that_dies_between_event_and_confirmation(deployment: Deployment, *, processed: bool) -> None:
    """Airflow has the event, the store does not know: it is announced again unless it is processed; processed once."""
    fill(deployment)
    first = deployment.trigger()
    await deployment.run_for(4.9)
    await first.stop()
    assert deployment.announced() == [1]
    if processed:
        await deployment.work()
    deployment.trigger()
    await deployment.run_for(100)
    assert deployment.announced() == [1] * (1 if processed else 2)
    await deployment.work()
    assert deployment.processed == ITEMS


@pytest.mark.parametrize(("when", "operation"), CONSUMER_CRASHES)
async def test_a_worker_that_dies_at(deployment: Deployment, when: str, operation: str) -> None:
    """Killed around any operation: when its lease ends the next run has the batch; only what it held comes twice."""
    fill(deployment)
    deployment.trigger(limit=2)
    await deployment.run_for(100)
    dying = CrashingStore(deployment.store)
    dying.die(when, operation)
    with pytest.raises(ProcessDied):
        await deployment.work(dying, holder="dying")
    await deployment.run_for(60)
    await deployment.work(holder="next")
    held = ITEMS[:2] if (when, operation) == ("before", "acknowledge") else []
    assert deployment.processed == held + ITEMS
    assert await deployment.store.pending(Selector("orders"), "load") == []


async def test_a_batch_that_a_dead_worker_holds_waits_for_the_lease(deployment: Deployment) -> None:
    """The next run does the others at once, the dead worker's batch when the lease is over, and is told so again."""
    fill(deployment)
    deployment.trigger(limit=2, redeliver_after=60.0)
    await deployment.run_for(100)
    dying = CrashingStore(deployment.store)
    dying.die("after", "claim")
    with pytest.raises(ProcessDied):
        await deployment.work(dying, holder="dying")
    await deployment.work(holder="next")
    assert deployment.processed == ITEMS[2:]
    before = len(deployment.events)
    await deployment.run_for(200)
    assert {batch.seq for event in deployment.events[before:] for batch in event.batches} == {1}
    await deployment.work(holder="later")
    assert deployment.processed == ITEMS[2:] + ITEMS[:2]


@pytest.mark.parametrize(
    "operation", ["load", "register", "commit", "due", "identity", "begin_announcement", "confirm", "report", "seen"]
)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_trigger_whose_store_fails_at(deployment: Deployment, when: str, operation: str) -> None:
    """Errors instead of death, the answer lost or never asked for: the same process goes on by itself."""
    fill(deployment)
    deployment.source.lateness = 1.0
    trigger = deployment.trigger(limit=2)
    trigger.store.fail(when, operation, StoreUnavailableError("gone"), times=3)
    await deployment.run_for(2000)
    await assert_everything_once(deployment)
    assert not trigger.task.done()


async def test_a_worker_that_dies_while_others_work(deployment: Deployment) -> None:
    """A worker keeps its lease while it works, for longer than the lease, and nobody else gets the batch."""
    fill(deployment)
    deployment.trigger()
    await deployment.run_for(10)
    await deployment.store.subscribe(Selector("orders"), "load", "earliest")
    slow = deployment.intake(holder="slow")
    taken = await slow.claim()
    assert taken is not None
    await deployment.run_for(600)
    await deployment.work(holder="other")
    assert deployment.processed == []
    await slow.acknowledge(taken)
    assert await deployment.store.acknowledged(Selector("orders"), "load", taken.claim.batch.id)
    await deployment.run_for(60)
    assert taken.keeper.cancelled()
