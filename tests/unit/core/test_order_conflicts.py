"""Two feeds on one watermark: wasted work, never a gap and never a repetition."""

from __future__ import annotations

import itertools

from airflow_provider_incremental.core.watermark import WatermarkKey
from tests.miniature import Deployment

KEY = WatermarkKey("orders")


async def test_the_second_of_two_commits_is_dropped_and_polled_again(deployment: Deployment) -> None:
    """Both have read the same items before either commits: one batch, one conflict, counted and over at once."""
    deployment.source.add(1, "a")
    deployment.source.before_return = lambda: deployment.clock.sleep(3)
    for _ in range(2):
        deployment.trigger()
    await deployment.run_for(7)
    assert await deployment.logged() == ["a"]
    watermark = await deployment.watermark()
    assert (watermark.last_seq, watermark.status.conflicts, watermark.status.failures) == (1, 1, 0)
    assert watermark.status.last_error is None


async def test_two_feeds_on_a_busy_source(deployment: Deployment) -> None:
    """Polls that overlap, ties, a small limit, ten minutes: every item in one batch, in order, all announced."""
    deployment.source.before_return = lambda: deployment.clock.sleep(0.7)
    for interval in (1.0, 1.3):
        deployment.trigger(limit=3, poll_interval=interval)
    names = []
    for second in range(600):
        for tie in range(second % 4):
            names.append(f"{second:03}-{tie}")
            deployment.source.add(second, names[-1])
        await deployment.run_for(1)
    deployment.source.before_return = None
    await deployment.run_for(100)
    assert await deployment.logged() == names
    assert (await deployment.watermark()).status.conflicts > 10
    log = await deployment.store.history(KEY, limit=10**6)
    assert [batch.seq for batch in log] == list(range(len(log), 0, -1))
    for newer, older in itertools.pairwise(log):
        assert newer.low == older.high
    assert set(deployment.announced()) == {batch.seq for batch in log}


async def test_two_feeds_in_step(deployment: Deployment) -> None:
    """Feeds that always poll in the same instant make progress together, and one conflict a commit at most."""
    deployment.source.before_return = lambda: deployment.clock.sleep(1)
    triggers = [deployment.trigger(poll_interval=10.0) for _ in range(2)]
    for number in range(20):
        deployment.source.add(number, str(number))
        await deployment.run_for(10)
    await deployment.run_for(30)
    assert await deployment.logged() == [str(number) for number in range(20)]
    assert (await deployment.watermark()).status.conflicts <= 20
    assert len(deployment.source.polls) <= 70
    assert not any(trigger.task.done() for trigger in triggers)


async def test_two_feeds_with_a_window_deliver_late_items_once(deployment: Deployment) -> None:
    """What one feed delivered inside the window, the other knows before it commits."""
    deployment.source.lateness = 100.0
    deployment.source.before_return = lambda: deployment.clock.sleep(0.7)
    for interval in (1.0, 1.1):
        deployment.trigger(limit=2, poll_interval=interval)
    names = set()
    for second in range(200):
        at = second - 50 if second % 3 else second
        names.add(f"item {second}")
        deployment.source.add(at, f"item {second}")
        await deployment.run_for(1)
    deployment.source.before_return = None
    await deployment.run_for(100)
    logged = await deployment.logged()
    assert len(logged) == 200
    assert set(logged) == names


async def test_a_rewind_meets_a_poll_under_way(deployment: Deployment) -> None:
    """The poll that began before the rewind commits nothing; the next one starts at the new position."""
    for number in range(4):
        deployment.source.add(number, str(number))
    deployment.trigger(limit=2, poll_interval=10.0)
    await deployment.run_for(5)
    deployment.source.add(9, "9")
    deployment.source.before_return = lambda: deployment.clock.sleep(3)
    await deployment.run_for(6)  # the poll began at 10 s and returns at 13 s
    await deployment.store.rewind(KEY, (2, "2"), reread=True)
    deployment.source.before_return = None
    await deployment.run_for(20)
    assert await deployment.logged() == ["0", "1", "2", "3", "3", "9"]
    assert (await deployment.watermark()).status.conflicts == 1


async def test_a_rewind_meets_a_backlog_that_drains(deployment: Deployment) -> None:
    """Between two polls of a backlog nothing is loaded anew, and yet the rewind counts."""
    for number in range(6):
        deployment.source.add(number, str(number))
    deployment.source.before_return = lambda: deployment.clock.sleep(1)
    deployment.trigger(limit=2, poll_interval=10.0)
    await deployment.run_for(1.5)
    await deployment.store.rewind(KEY, None, reread=True)
    await deployment.run_for(20)
    assert await deployment.logged() == ["0", "1", *"012345"]


async def test_a_watermark_is_forgotten_under_a_feed(deployment: Deployment) -> None:
    """The feed makes it anew, from the start position, and goes on."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger()
    await deployment.run_for(35)
    await deployment.store.forget(KEY)
    deployment.source.add(2, "b")
    await deployment.run_for(100)
    assert await deployment.logged() == ["a", "b"]
    assert not trigger.task.done()
    assert deployment.announced() == [1, 1]
