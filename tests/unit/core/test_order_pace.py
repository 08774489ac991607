"""When things happen: polls, announcements, redelivery, confirmation. Time is the test's, to the second."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_incremental.core.pace import backoff
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from tests.miniature import Deployment

KEY = WatermarkKey("orders")


async def test_polls_are_one_interval_apart(deployment: Deployment) -> None:
    """A quiet source is read once every poll interval, from the start on."""
    deployment.trigger(poll_interval=10.0)
    await deployment.run_for(0)
    assert len(deployment.source.polls) == 1
    for polls in (2, 3, 4):
        await deployment.run_for(9.9)
        assert len(deployment.source.polls) == polls - 1
        await deployment.run_for(0.1)
        assert len(deployment.source.polls) == polls


async def test_a_slow_poll_does_not_shift_the_next(deployment: Deployment) -> None:
    """The interval runs from the begin of a poll, not from its end."""
    deployment.source.before_return = lambda: deployment.clock.sleep(4)
    deployment.trigger(poll_interval=10.0)
    await deployment.run_for(35)
    assert len(deployment.source.polls) == 4


async def test_a_backlog_drains_at_full_speed_while_announcements_are_paced(deployment: Deployment) -> None:
    """A thousand items are in the log before any time passes; events come one announce interval apart."""
    for number in range(1000):
        deployment.source.add(number, str(number))
    trigger = deployment.trigger(limit=10, announce_interval=30.0, poll_interval=10.0)
    await deployment.run_for(0)
    assert (await deployment.watermark()).last_seq == 100
    assert len(deployment.events) == 1
    await deployment.run_for(29.9)
    assert len(deployment.events) == 1
    await deployment.run_for(0.1)
    assert [len(event.batches) for event in deployment.events] == [1, 99]
    assert deployment.announced() == list(range(1, 101))
    await deployment.run_for(600)
    assert len(trigger.yielded) == 2


async def test_announcements_of_a_busy_source_are_an_interval_apart(deployment: Deployment) -> None:
    """However often something is found, one event names all that was found since the last."""
    trigger = deployment.trigger(poll_interval=1.0, announce_interval=30.0)
    for second in range(120):
        deployment.source.add(second, str(second))
        await deployment.run_for(1)
    assert trigger.yielded_at == [0, 30, 60, 90, 120]
    assert deployment.announced() == list(range(1, len(deployment.announced()) + 1))


async def test_what_is_found_after_a_silence_is_announced_at_once(deployment: Deployment) -> None:
    """The announce interval keeps events apart; it does not delay the first one."""
    deployment.trigger(poll_interval=10.0, announce_interval=30.0, redeliver_after=3000.0)
    await deployment.run_for(95)
    deployment.source.add(1, "a")
    await deployment.run_for(5)
    assert deployment.announced() == [1]


async def test_batches_are_announced_again_until_they_are_acknowledged(deployment: Deployment) -> None:
    """Every redeliver_after, in one event, as long as a known consumer is late; then never again."""
    deployment.source.add(1, "a")
    deployment.source.add(2, "b")
    deployment.trigger(limit=1, poll_interval=10.0, announce_interval=30.0, redeliver_after=300.0)
    await deployment.store.register(KEY, deployment.source.watches)
    await deployment.store.subscribe(Selector("orders"), "load", "earliest")
    await deployment.run_for(60)
    assert deployment.announced() == [1, 2]
    await deployment.run_for(1000)
    # Batch 1 was confirmed 5 s after the start, batch 2 at 35 s; they fall due one announce interval apart.
    repeats = deployment.announced()[2:]
    assert sorted(repeats) == [1] * 3 + [2] * 3
    await deployment.work()
    before = len(deployment.events)
    await deployment.run_for(2000)
    assert len(deployment.events) == before


async def test_redelivery_does_not_wait_for_the_next_poll(deployment: Deployment) -> None:
    """A source that is polled once an hour still has its batches announced again after redeliver_after."""
    deployment.source.add(1, "a")
    deployment.trigger(poll_interval=3600.0, redeliver_after=300.0)
    await deployment.run_for(1)
    await deployment.store.subscribe(Selector("orders"), "load", "earliest")
    await deployment.run_for(4 + 600)
    assert deployment.announced() == [1, 1]


async def test_nothing_is_announced_again_when_no_consumer_is_known(deployment: Deployment) -> None:
    """A DAG that reads its items from the event is told once."""
    deployment.source.add(1, "a")
    deployment.trigger()
    await deployment.run_for(5000)
    assert deployment.announced() == [1]


async def test_inferred_confirmation_after_n_seconds(deployment: Deployment) -> None:
    """A process that still runs so long after its yield takes the event for stored, then and not before."""
    deployment.source.add(1, "a")
    deployment.trigger(confirm_after=5.0, poll_interval=100.0)
    await deployment.run_for(4.9)
    assert [each.announced_at for each in await deployment.store.history(KEY)] == [None]
    await deployment.run_for(0.1)
    assert [each.announced_at for each in await deployment.store.history(KEY)] == [deployment.clock.now()]


async def test_exact_confirmation_is_not_inferred(deployment: Deployment) -> None:
    """Where somebody else confirms, time alone confirms nothing, and what is in flight is not told twice."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(confirm_after=None)
    await deployment.run_for(1000)
    assert [sorted(each.seqs) for each in trigger.yielded] == [[1]]
    assert [each.announced_at for each in await deployment.store.history(KEY)] == [None]
    await trigger.feed.confirm(trigger.yielded[0])
    assert [each.announced_at for each in await deployment.store.history(KEY)] == [deployment.clock.now()]


async def test_a_confirmation_under_way_keeps_its_batches_from_being_told_again(deployment: Deployment) -> None:
    """Airflow confirms in a task of its own: while the store takes its time, the batches are still in flight."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(confirm_after=None, announce_interval=30.0)
    await deployment.run_for(0)
    trigger.store.before["confirm"] = lambda: deployment.clock.sleep(100)
    confirmation = asyncio.create_task(trigger.feed.confirm(trigger.yielded[0]))
    await deployment.run_for(99)
    assert len(trigger.yielded) == 1
    await deployment.run_for(600)
    assert confirmation.done()
    assert len(trigger.yielded) == 1


async def test_dropped_announcements_are_made_again(deployment: Deployment) -> None:
    """What Airflow did not store is due again at once, and told at the pace of announcements until it is stored."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(airflow="drops", confirm_after=None, announce_interval=30.0)
    await deployment.run_for(89)
    assert [sorted(each.seqs) for each in trigger.yielded] == [[1]] * 3
    trigger.airflow = "confirms"
    await deployment.run_for(1000)
    assert [sorted(each.seqs) for each in trigger.yielded] == [[1]] * 4
    assert deployment.announced() == [1]


async def test_dropping_one_announcement_leaves_the_others_in_flight(deployment: Deployment) -> None:
    """Only the batches of the announcement that failed are told again."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(confirm_after=None, announce_interval=30.0, poll_interval=10.0)
    await deployment.run_for(5)
    deployment.source.add(2, "b")
    await deployment.run_for(60)
    first, second = trigger.yielded
    trigger.feed.drop(second)
    await deployment.run_for(60)
    assert [sorted(each.seqs) for each in trigger.yielded] == [[1], [2], [2]]
    trigger.feed.drop(second)  # it knows of that one no longer
    await deployment.run_for(60)
    trigger.feed.drop(first)
    await deployment.run_for(60)
    assert [sorted(each.seqs) for each in trigger.yielded] == [[1], [2], [2], [1]]


async def test_a_restarted_trigger_honours_the_last_poll(deployment: Deployment) -> None:
    """A trigger that is restarted every second polls once an interval, and announces what is due at once."""
    first = deployment.trigger(poll_interval=30.0)
    await deployment.run_for(1)
    await first.stop()
    deployment.source.add(1, "a")
    for _ in range(20):
        trigger = deployment.trigger(poll_interval=30.0)
        await deployment.run_for(1)
        await trigger.stop()
    assert len(deployment.source.polls) == 1
    deployment.trigger(poll_interval=30.0)
    await deployment.run_for(9)
    assert len(deployment.source.polls) == 2
    assert deployment.announced() == [1]


async def test_a_restarted_trigger_waits_a_minute_at_most(deployment: Deployment) -> None:
    """A long poll interval is no reason to sit still for hours after a restart."""
    first = deployment.trigger(poll_interval=3600.0)
    await deployment.run_for(1)
    await first.stop()
    deployment.trigger(poll_interval=3600.0)
    await deployment.run_for(58)
    assert len(deployment.source.polls) == 1
    await deployment.run_for(1)
    assert len(deployment.source.polls) == 2


@pytest.mark.parametrize("ago", [-3600.0, 3600.0])
async def test_a_restart_after_the_clock_was_set(deployment: Deployment, ago: float) -> None:
    """A last poll that lies in the future, or long ago, delays the next one by an interval at most."""
    first = deployment.trigger(poll_interval=30.0)
    await deployment.run_for(1)
    await first.stop()
    deployment.clock.set_wall(ago)
    deployment.trigger(poll_interval=30.0)
    await deployment.run_for(31)
    assert len(deployment.source.polls) >= 2


@pytest.mark.parametrize(
    ("interval", "waits"),
    [
        (10, [10, 20, 40, 80, 160, 300, 300, 300]),
        (60, [60, 120, 240, 300, 300]),
        (300, [300, 300]),
        (900, [900, 900]),
        (0.5, [0.5, 1, 2, 4]),
    ],
)
def test_backoff_doubles_up_to_its_cap(interval: float, waits: list[float]) -> None:
    """From the poll interval, doubling, to five minutes; never shorter than the poll interval; never an overflow."""
    assert [backoff(interval, failures) for failures in range(1, len(waits) + 1)] == waits
    assert backoff(interval, 10**6) == max(300.0, interval)


async def restarted_every_second(deployment: Deployment, seconds: int, **settings: float) -> None:
    """A trigger that never lives long enough to know whether Airflow has stored its event."""
    for _ in range(seconds):
        trigger = deployment.trigger(confirm_after=10.0, **settings)
        await deployment.run_for(1)
        await trigger.stop()


async def test_restarts_do_not_hasten_announcements(deployment: Deployment) -> None:
    """A trigger that is restarted every second tells of a batch once an interval, and of a new one no sooner."""
    deployment.source.add(1, "a")
    await restarted_every_second(deployment, 59, announce_interval=30.0)
    assert deployment.announced() == [1, 1]
    deployment.source.add(2, "b")
    await restarted_every_second(deployment, 60, announce_interval=30.0)
    assert len(deployment.events) == 4
    assert 2 in deployment.announced()


async def test_restarts_repeat_nothing_that_is_processed(deployment: Deployment) -> None:
    """What every known consumer has acknowledged is not told again, though nobody knows whether Airflow has it."""
    deployment.source.add(1, "a")
    await restarted_every_second(deployment, 3, announce_interval=5.0)
    await deployment.work()
    await restarted_every_second(deployment, 300, announce_interval=5.0)
    assert deployment.announced() == [1]


async def test_what_is_processed_before_it_was_told_is_told_once(deployment: Deployment) -> None:
    """A run that takes what nobody has told it of yet does not hide it from DAGs that read events only."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(poll_interval=1.0, announce_interval=30.0)
    await deployment.run_for(5)
    deployment.source.add(2, "b")
    await deployment.run_for(5)
    await deployment.work()
    assert deployment.processed == ["a", "b"]
    assert deployment.announced() == [1]
    await deployment.run_for(300)
    assert deployment.announced() == [1, 2]
    assert trigger.yielded_at == [0, 30]


async def test_two_triggers_share_one_pace(deployment: Deployment) -> None:
    """Two that run at once tell of a batch once, not once each."""
    for second in range(60):
        deployment.source.add(second, str(second))
    deployment.source.bound = 0
    triggers = [deployment.trigger(poll_interval=1.0, announce_interval=30.0) for _ in range(2)]
    for second in range(60):
        deployment.source.bound = second
        await deployment.run_for(1)
    assert sorted(instant for trigger in triggers for instant in trigger.yielded_at) == [0, 30, 60]


async def test_a_clock_that_is_set_back_does_not_silence_announcements(deployment: Deployment) -> None:
    """A last announcement that lies in the future delays the next one by an interval at most."""
    deployment.source.add(1, "a")
    first = deployment.trigger()
    await deployment.run_for(10)
    await first.stop()
    deployment.source.add(2, "b")
    deployment.clock.set_wall(-3600)
    deployment.trigger(announce_interval=30.0, poll_interval=1.0)
    await deployment.run_for(60)
    assert deployment.announced() == [1, 2]
