"""A source that says that it has news is polled at once; whatever it says, polls go on and never spin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

import pytest

from airflow_provider_incremental.testing.fakes import FakeClock, ListSource
from tests.miniature import Deployment


class Telling(ListSource):
    """Tells of news when a test rings."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock
        self.bell = asyncio.Event()
        self.broken: BaseException | None = None
        self.asked = 0
        self.let_go = 0

    def changed(self) -> Awaitable[None] | None:
        self.asked += 1
        return self._rung()

    async def _rung(self) -> None:
        if self.broken is not None:
            raise self.broken
        try:
            while not self.bell.is_set():
                await self.clock.sleep(0.1)
        except asyncio.CancelledError:
            self.let_go += 1
            raise
        self.bell.clear()


@pytest.fixture
async def telling(deployment: Deployment) -> Deployment:
    """A deployment that polls once an hour, with a source that can tell."""
    deployment.source = Telling(deployment.clock)
    deployment.trigger(poll_interval=3600.0, announce_interval=1.0)
    await deployment.run_for(5)
    return deployment


async def test_news_is_polled_and_announced_at_once(telling: Deployment) -> None:
    """Nobody waits for the next poll."""
    telling.source.add(1, "a")
    telling.source.bell.set()
    await telling.run_for(2)
    assert telling.announced() == [1]


async def test_a_burst_of_news_is_a_few_polls(telling: Deployment) -> None:
    """However often the source tells, polls keep a distance, and the last news is not missed."""
    before = len(telling.source.polls)
    for number in range(100):
        telling.source.add(number, f"item {number}")
        telling.source.bell.set()
        await telling.run_for(0.01)
    await telling.run_for(1)
    assert len(await telling.logged()) == 100
    assert len(telling.source.polls) - before <= 8


async def test_news_of_a_source_that_fails_does_not_break_the_back_off(telling: Deployment) -> None:
    """While polls fail, the pace of the next one is the back-off's."""
    telling.source.errors.extend(OSError("down") for _ in range(50))
    for _ in range(20):
        telling.source.bell.set()
        await telling.run_for(1)
    assert len(telling.source.errors) >= 48


@pytest.mark.parametrize("error", [OSError("no"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_listening_that_fails_is_logged_and_tried_again(
    telling: Deployment, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls go on as if there were nothing to listen to, and half a minute later it is tried again."""
    caplog.set_level(logging.WARNING)
    telling.source.broken = error
    telling.source.bell.set()  # ends the wait that is under way
    await telling.run_for(10)
    asked = telling.source.asked
    assert ("listening for changes failed" in caplog.text) == isinstance(error, OSError)
    telling.source.broken = None
    await telling.run_for(60)
    assert telling.source.asked == asked + 1
    telling.source.add(1, "a")
    telling.source.bell.set()
    await telling.run_for(2)
    assert await telling.logged() == ["a"]


async def test_a_stopped_trigger_lets_go_of_its_source(telling: Deployment) -> None:
    """Nothing listens on."""
    await telling.triggers[0].stop()
    assert telling.source.let_go == 1
