"""A watermark that cannot be moved by this source: refused, shown, announced by nobody, and let in after a rewatch."""

from __future__ import annotations

from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.testing.fakes import ListSource
from tests.miniature import Deployment

KEY = WatermarkKey("orders")


async def test_a_source_that_cannot_be_kept_is_an_error(deployment: Deployment) -> None:
    """An item without a JSON form is never dropped: the poll fails with its type, again and again."""
    deployment.source.add(1, "a", object())
    deployment.trigger()
    await deployment.run_for(100)
    status = (await deployment.watermark()).status
    assert "builtins.object" in (status.last_error or "")
    assert status.failures > 1
    assert (await deployment.watermark()).version == 0


async def test_another_source_is_refused_and_not_announced(deployment: Deployment) -> None:
    """A trigger that points the watermark elsewhere reads nothing, announces nothing, says why, and does not spin."""
    deployment.source.add(1, "a")
    mine = deployment.trigger(airflow="kills")
    await deployment.run_for(1)
    assert mine.died
    other = ListSource(name="another list")
    stranger = deployment.trigger(source=other)
    await deployment.run_for(1000)
    assert (other.polls, stranger.yielded) == ([], [])
    status = (await deployment.watermark()).status
    assert "another list" in (status.last_error or "")
    assert "rewatch" in (status.last_error or "")
    assert stranger.store.calls.count("load") < 20


async def test_a_refused_source_is_let_in_after_a_rewatch(deployment: Deployment) -> None:
    """The remedy that the error names works while the refused trigger runs."""
    deployment.source.add(1, "a")
    first = deployment.trigger()
    await deployment.run_for(10)
    await first.stop()
    other = ListSource(name="another list")
    other.add(0.5, "early")
    other.add(2, "b")
    deployment.trigger(source=other)
    await deployment.run_for(10)
    await deployment.store.rewind(KEY, (1, "a"), reread=False, rewatch=True)
    await deployment.run_for(600)
    assert (await deployment.watermark()).watches == Watches("another list", "at, name")
    assert await deployment.logged() == ["a", "b"]


async def test_a_trigger_that_lost_its_watermark_stops_announcing(deployment: Deployment) -> None:
    """When the watermark was given to another source, the trigger of the first one keeps quiet."""
    deployment.source.add(1, "a")
    mine = deployment.trigger(airflow="drops", confirm_after=None)
    await deployment.run_for(9)
    await deployment.store.rewind(KEY, None, reread=False, rewatch=True)
    await deployment.store.register(KEY, Watches("another list", "at, name"))
    before = len(mine.yielded)
    await deployment.run_for(1000)
    assert len(mine.yielded) <= before + 1
    assert len(deployment.source.polls) == 1
