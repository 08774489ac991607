"""Beside the order of things: declared consumers are known from the first poll on, and the log is cleared."""

from __future__ import annotations

import logging

import pytest

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.store import RETURNS_WITHIN, Selector
from tests.miniature import KEY, Deployment

ORDERS = Selector("orders")
DAY = 86400.0
SLOW = {"poll_interval": 3600.0, "announce_interval": 3600.0, "redeliver_after": 3600.0}


async def seqs(deployment: Deployment) -> list[int]:
    """What the log has, oldest first."""
    return [batch.seq for batch in reversed(await deployment.store.history(KEY, limit=1000))]


async def test_a_declared_consumer_is_called_before_its_first_run(deployment: Deployment) -> None:
    """Airflow lost the event; the batch is announced again for a DAG that has never run."""
    deployment.source.add(1, "a")
    deployment.trigger(consumers=["load"], airflow="confirms", redeliver_after=100.0)
    await deployment.run_for(50)
    assert deployment.announced() == [1]
    await deployment.run_for(80)
    assert deployment.announced() == [1, 1]
    await deployment.work()
    await deployment.run_for(1000)
    assert deployment.announced() == [1, 1]


async def test_a_consumer_that_is_not_declared_is_not_called(deployment: Deployment) -> None:
    """The counterpart: nobody is known, so nobody waits."""
    deployment.source.add(1, "a")
    deployment.trigger(airflow="confirms", redeliver_after=100.0)
    await deployment.run_for(1000)
    assert deployment.announced() == [1]


async def test_a_declared_consumer_stays_known_as_long_as_the_trigger_runs(deployment: Deployment) -> None:
    """A DAG that is paused for a month is still called when it comes back."""
    deployment.source.add(1, "a")
    deployment.trigger(consumers=["load"], airflow="confirms", **SLOW)
    await deployment.run_for(RETURNS_WITHIN + 3 * DAY)
    assert len(deployment.announced()) > 24 * 8


async def test_what_nobody_needs_leaves_the_log_after_the_retention(deployment: Deployment) -> None:
    """The rest stays: what is young, and what a consumer has not finished."""
    deployment.trigger(consumers=["load"], airflow="confirms", retention=2 * DAY, **SLOW)
    for day in range(3):
        deployment.source.add(day, f"day {day}")
        await deployment.run_for(DAY)
        if day < 2:
            await deployment.work()
    assert await seqs(deployment) == [2, 3]
    await deployment.run_for(5 * DAY)
    assert await seqs(deployment) == [3]


async def test_without_a_retention_all_stays(deployment: Deployment) -> None:
    """None is for ever."""
    deployment.source.add(1, "a")
    deployment.trigger(consumers=["load"], airflow="confirms", retention=None, **SLOW)
    await deployment.run_for(DAY)
    await deployment.work()
    await deployment.run_for(100 * DAY)
    assert await seqs(deployment) == [1]


@pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])
async def test_what_the_lateness_window_needs_is_not_pruned(deployment: Deployment, *, restart: bool) -> None:
    """Whatever the retention: items inside the window would be taken for late ones, and come twice."""
    deployment.source.lateness = 10.0
    settings = {"consumers": ["load"], "airflow": "confirms", "retention": 3600.0, **SLOW}
    deployment.trigger(**settings)
    for at in (70, 95, 100):
        deployment.source.add(at, f"at {at}")
        await deployment.run_for(DAY / 24)
        await deployment.work()
    await deployment.run_for(2 * DAY)
    if restart:
        await deployment.triggers[-1].stop()
        deployment.trigger(**settings)
    await deployment.run_for(2 * DAY)
    assert await seqs(deployment) == [2, 3]
    assert deployment.processed == ["at 70", "at 95", "at 100"]


@pytest.mark.parametrize("chore", ["subscribe", "prune"])
async def test_a_chore_that_fails_keeps_no_poll_from_happening(
    deployment: Deployment, chore: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once, done later, and the data goes on."""
    caplog.set_level(logging.INFO)
    trigger = deployment.trigger(consumers=["load"], retention=DAY, **SLOW)
    trigger.store.fail("before", chore, StoreUnavailableError("not now"), times=3)
    for at in range(3):
        deployment.source.add(at, f"at {at}")
        await deployment.run_for(3600)
    assert await deployment.logged() == ["at 0", "at 1", "at 2"]
    assert caplog.text.count("not now") == 1
    await deployment.run_for(3 * 3600)
    calls = trigger.store.calls.count(chore)
    assert calls >= 4
    assert (await deployment.watermark()).status.failures == 0
