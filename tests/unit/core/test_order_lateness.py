"""Items that appear behind the watermark: delivered once inside the window, counted outside of it, and rewinds."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.watermark import WatermarkKey
from tests.miniature import Deployment

KEY = WatermarkKey("orders")
RESTART = pytest.mark.parametrize("restart", [False, True], ids=["same process", "restarted"])


THERE = ["at 70", "at 80", "at 95", "at 100"]


@pytest.fixture
async def late(deployment: Deployment) -> Deployment:
    """A deployment whose source looks ten seconds back, and whose trigger has delivered four items in two batches."""
    deployment.source.lateness = 10.0
    for at in (70, 80, 95, 100):
        deployment.source.add(at, f"at {at}")
    deployment.trigger(limit=2)
    await deployment.run_for(50)
    assert await deployment.logged() == THERE
    return deployment


async def renewed(deployment: Deployment, *, restart: bool) -> None:
    """Stop the trigger and start another one, if the test is about that."""
    if restart:
        await deployment.triggers[-1].stop()
        deployment.trigger(limit=2)


@RESTART
async def test_an_item_inside_the_window_is_delivered_once(late: Deployment, *, restart: bool) -> None:
    """It stands behind the watermark, which does not move for it; it comes in a batch of its own."""
    late.source.add(92, "late")
    await renewed(late, restart=restart)
    await late.run_for(100)
    await renewed(late, restart=restart)
    await late.run_for(100)
    assert await late.logged() == [*THERE, "late"]
    assert (await late.watermark()).cursor == (100, "at 100")
    assert set(late.announced()) == {1, 2, 3}


@RESTART
async def test_an_item_outside_the_window_is_not_delivered(late: Deployment, *, restart: bool) -> None:
    """What lies further back than the window is left out, and counted where the source can tell."""
    late.source.add(89.9, "too late")
    late.source.late_skipped = 1
    await renewed(late, restart=restart)
    await late.run_for(100)
    late.source.late_skipped = 2
    await late.run_for(100)
    assert await late.logged() == THERE
    assert (await late.watermark()).status.late_skipped == 3


@RESTART
async def test_late_items_and_a_limit(late: Deployment, *, restart: bool) -> None:
    """More late items than fit, with new ones behind them: all, once, and the watermark never steps back."""
    expected = set(THERE)
    for number in range(7):
        late.source.add(90 + number / 10, f"late {number}")
        late.source.add(101 + number / 10, f"new {number}")
        expected |= {f"late {number}", f"new {number}"}
    await renewed(late, restart=restart)
    await late.run_for(100)
    logged = await late.logged()
    assert len(logged) == len(expected)
    assert set(logged) == expected
    assert (await late.watermark()).cursor == (101.6, "new 6")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_among_late_items(late: Deployment, when: str) -> None:
    """Killed at the commit of late items: the next process delivers those that were not committed, and only those."""
    for number in range(5):
        late.source.add(90 + number / 10, f"late {number}")
    late.triggers[-1].store.die(when, "commit")
    await late.run_for(100)
    assert late.triggers[-1].died
    late.trigger(limit=2)
    await late.run_for(100)
    assert await late.logged() == [*THERE, *(f"late {number}" for number in range(5))]


@RESTART
async def test_a_window_of_many_batches(deployment: Deployment, *, restart: bool) -> None:
    """A window with more batches than a page of the log forgets none of them, and none twice."""
    deployment.source.lateness = 1000.0
    for number in range(350):
        deployment.source.add(number, f"{number:03}")
    deployment.trigger(limit=1)
    await deployment.run_for(50)
    assert (await deployment.watermark()).last_seq == 350
    deployment.source.add(0.5, "late")
    await renewed(deployment, restart=restart)
    await deployment.run_for(100)
    assert await deployment.logged() == [*(f"{number:03}" for number in range(350)), "late"]


async def test_the_log_is_read_once(deployment: Deployment) -> None:
    """A feed that runs asks for the fingerprints of new batches only, and for none when nothing is new."""
    deployment.source.lateness = 10.0
    for number in range(350):
        deployment.source.add(number, f"{number:03}")
    trigger = deployment.trigger(limit=1)
    await deployment.run_for(15)
    assert trigger.store.calls.count("seen") == 350
    await deployment.run_for(500)
    assert trigger.store.calls.count("seen") == 350


@RESTART
async def test_a_rewind_with_reread_delivers_again(late: Deployment, *, restart: bool) -> None:
    """Everything above the new position comes again, the window behind it as well; afterwards it counts as seen."""
    await late.store.rewind(KEY, (95, "at 95"), reread=True)
    await renewed(late, restart=restart)
    await late.run_for(100)
    assert await late.logged() == [*THERE, "at 95", "at 100"]
    await renewed(late, restart=restart)
    await late.run_for(100)
    assert len(await late.logged()) == 6


@RESTART
async def test_a_rewind_without_reread_delivers_what_was_missed(late: Deployment, *, restart: bool) -> None:
    """What the log has is not delivered again, however far back; what it has not is."""
    late.source.add(65, "missed")
    await late.store.rewind(KEY, None, reread=False)
    await renewed(late, restart=restart)
    await late.run_for(100)
    assert await late.logged() == [*THERE, "missed"]
    assert (await late.watermark()).cursor == (100, "at 100")


@RESTART
async def test_a_rewind_over_nothing_new_moves_the_watermark(late: Deployment, *, restart: bool) -> None:
    """When all that is read again was delivered, no batch is made, and the watermark comes back to where it was."""
    await late.store.rewind(KEY, (70, "at 70"), reread=False)
    await renewed(late, restart=restart)
    await late.run_for(100)
    assert await late.logged() == THERE
    assert (await late.watermark()).cursor == (100, "at 100")


async def test_a_rewind_without_a_window_delivers_again(deployment: Deployment) -> None:
    """A source without fingerprints has one order only: above the position is new, whatever was delivered."""
    for number in range(4):
        deployment.source.add(number, str(number))
    deployment.trigger()
    await deployment.run_for(35)
    await deployment.store.rewind(KEY, (1, "1"), reread=False)
    await deployment.run_for(100)
    assert await deployment.logged() == ["0", "1", "2", "3", "2", "3"]


async def test_a_bound_holds_items_back(deployment: Deployment) -> None:
    """What lies above the bound of a poll is not skipped: it is delivered when the bound has moved on."""
    deployment.source.bound = 10
    for at in (5, 10, 15):
        deployment.source.add(at, str(at))
    deployment.trigger()
    await deployment.run_for(35)
    assert await deployment.logged() == ["5", "10"]
    deployment.source.add(9, "9 came late")  # not above (10, "10"), and there is no window
    deployment.source.add(12, "12")
    deployment.source.bound = 20
    await deployment.run_for(35)
    assert await deployment.logged() == ["5", "10", "12", "15"]
