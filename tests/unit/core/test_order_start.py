"""Where a feed starts: at the earliest, the latest, or a cursor; decided once, whatever dies."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.pace import StartAt
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.testing.fakes import ListSource
from tests.miniature import Deployment

KEY = WatermarkKey("orders")


async def test_earliest_reads_everything(deployment: Deployment) -> None:
    """The earliest start has no lower bound at all."""
    deployment.source.add(-1e300, "a")
    deployment.source.add(0, "b")
    deployment.trigger(start="earliest")
    await deployment.run_for(10)
    assert deployment.source.polls[0] is None
    assert await deployment.logged() == ["a", "b"]


async def test_latest_reads_what_comes(deployment: Deployment) -> None:
    """The latest start leaves out what is there, and delivers what comes after."""
    deployment.source.add(1, "old")
    deployment.trigger(start="latest")
    await deployment.run_for(10)
    assert await deployment.logged() == []
    deployment.source.add(1, "aged")  # below the baseline by its name: not new
    deployment.source.add(1, "omega")
    deployment.source.add(2, "new")
    await deployment.run_for(100)
    assert await deployment.logged() == ["omega", "new"]


async def test_latest_on_an_empty_source_is_decided_at_once(deployment: Deployment) -> None:
    """Nothing there, restart, insert: delivered, since "latest" was then."""
    first = deployment.trigger(start="latest")
    await deployment.run_for(1)
    assert (await deployment.watermark()).started
    await first.stop()
    deployment.source.add(1, "a")
    deployment.trigger(start="latest")
    await deployment.run_for(100)
    assert await deployment.logged() == ["a"]
    assert deployment.announced() == [1]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_latest_that_dies_at_its_baseline(deployment: Deployment, when: str) -> None:
    """A baseline that was stored is kept; one that was not is taken anew."""
    deployment.source.add(1, "old")
    first = deployment.trigger(start="latest")
    first.store.die(when, "commit")
    await deployment.run_for(1)
    assert first.died
    deployment.source.add(2, "between")
    deployment.trigger(start="latest")
    await deployment.run_for(100)
    deployment.source.add(3, "new")
    await deployment.run_for(100)
    assert await deployment.logged() == (["new"] if when == "before" else ["between", "new"])


async def test_latest_that_cannot_be_read_is_no_start(deployment: Deployment) -> None:
    """A source that fails when it is asked for its end is asked again; nothing is decided meanwhile."""
    deployment.source.add(1, "old")
    deployment.source.errors.append(ConnectionError("gone"))
    deployment.trigger(start="latest")
    await deployment.run_for(1)
    assert not (await deployment.watermark()).started
    await deployment.run_for(100)
    assert (await deployment.watermark()).cursor == (1, "old")


async def test_a_start_at_a_cursor(deployment: Deployment) -> None:
    """What lies above the cursor is delivered, the cursor's own item is not."""
    for at, name in ((1, "a"), (2, "b"), (2, "c"), (3, "d")):
        deployment.source.add(at, name)
    deployment.trigger(start=StartAt((2, "b")))
    await deployment.run_for(10)
    assert await deployment.logged() == ["c", "d"]


@pytest.mark.parametrize("start", ["latest", StartAt((5, "x"))])
async def test_earliest_on_an_empty_source_is_decided_at_once(deployment: Deployment, start: str | StartAt) -> None:
    """Nothing there, restart with another start, and what came between is delivered all the same."""
    first = deployment.trigger(start="earliest")
    await deployment.run_for(1)
    watermark = await deployment.watermark()
    assert (watermark.version, watermark.cursor, watermark.last_seq) == (1, None, 0)
    await deployment.run_for(100)
    assert (await deployment.watermark()).version == 1
    await first.stop()
    deployment.source.add(1, "a")
    deployment.trigger(start=start)
    await deployment.run_for(100)
    assert await deployment.logged() == ["a"]


async def test_earliest_that_cannot_be_read_is_no_start(deployment: Deployment) -> None:
    """A first poll that fails decides nothing."""
    deployment.source.errors.append(ConnectionError("gone"))
    deployment.trigger(start="earliest")
    await deployment.run_for(1)
    assert not (await deployment.watermark()).started
    await deployment.run_for(100)
    assert (await deployment.watermark()).started


@pytest.mark.parametrize("start", ["latest", StartAt((5, "x"))])
async def test_a_start_is_decided_once(deployment: Deployment, start: str | StartAt) -> None:
    """A watermark that has started goes on from where it is, whatever the trigger says later."""
    deployment.source.add(1, "a")
    first = deployment.trigger(start="earliest")
    await deployment.run_for(10)
    await first.stop()
    deployment.source.add(2, "b")
    deployment.trigger(start=start)
    await deployment.run_for(100)
    assert await deployment.logged() == ["a", "b"]


async def test_a_start_does_not_move_what_somebody_set(deployment: Deployment) -> None:
    """A watermark that was set by hand before the trigger came is where the trigger starts."""
    for at, name in ((1, "a"), (2, "b")):
        deployment.source.add(at, name)
    await deployment.store.rewind(KEY, (1, "a"), reread=False)
    deployment.trigger(start="latest")
    await deployment.run_for(10)
    assert await deployment.logged() == ["b"]


async def test_two_feeds_that_start_at_the_latest_together(deployment: Deployment) -> None:
    """One of two baselines counts, and what comes between them is delivered once or was there before."""
    deployment.source.add(1, "old")
    deployment.trigger(start="latest")
    deployment.trigger(start="latest")
    await deployment.run_for(10)
    deployment.source.add(2, "new")
    await deployment.run_for(100)
    assert await deployment.logged() == ["new"]


async def test_latest_with_a_window_knows_what_was_there(deployment: Deployment) -> None:
    """Items inside the lateness window at the start are not late ones; one that appears there later is."""
    deployment.source.lateness = 10.0
    for at, name in ((1, "far"), (95, "near"), (100, "newest")):
        deployment.source.add(at, name)
    deployment.trigger(start="latest")
    await deployment.run_for(10)
    [baseline] = await deployment.store.history(KEY)
    assert (baseline.kind, baseline.items) == ("baseline", [])
    deployment.source.add(93, "late")
    await deployment.run_for(100)
    assert await deployment.logged() == ["late"]
    assert deployment.announced() == [2]


async def test_a_start_at_a_cursor_with_a_window(deployment: Deployment) -> None:
    """What lies in the window behind the cursor counts as delivered; what lies above it does not."""
    deployment.source.lateness = 10.0
    for at, name in ((95, "near"), (100, "at"), (101, "above")):
        deployment.source.add(at, name)
    deployment.trigger(start=StartAt((100, "at")))
    await deployment.run_for(10)
    assert await deployment.logged() == ["above"]


@pytest.mark.parametrize("start", ["earliest", "latest"])
async def test_a_source_that_was_never_read_is_no_start(deployment: Deployment, start: str) -> None:
    """A trigger that names the wrong table is corrected by the next one: nothing has to be rewatched."""
    typo = ListSource(name="ordres")
    typo.errors.extend([SourceError("no such table")] * 100)
    first = deployment.trigger(source=typo, start=start)
    await deployment.run_for(100)
    await first.stop()
    deployment.trigger(start=start)
    await deployment.run_for(100)
    deployment.source.add(1, "a")
    await deployment.run_for(100)
    assert await deployment.logged() == ["a"]
    assert (await deployment.watermark()).status.last_error is None
