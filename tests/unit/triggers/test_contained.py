"""What a source raises that no ``except Exception`` sees ends neither the trigger nor the process of all triggers."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, ClassVar

import pytest

from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.testing.fakes import ListSource
from airflow_provider_incremental.triggers import IncrementalTrigger
from tests.unit.triggers.list_trigger import ListTrigger, trigger, until, watermark

pytestmark = pytest.mark.usefixtures("store")


class PanicError(BaseException):
    """As extensions written in Rust raise it."""


ERRORS = pytest.mark.parametrize("error", [SystemExit(3), PanicError("index out of bounds")], ids=["exit", "panic"])


@ERRORS
async def test_a_poll_that_exits_is_one_failed_poll(error: BaseException) -> None:
    """It shows in the status, and the next poll delivers."""
    ListTrigger.source.errors.append(error)
    ListTrigger.source.add(1.0, "a")
    watcher = trigger(poll_interval=0.2)
    async with aclosing(watcher.run()) as events:
        first = asyncio.create_task(anext(events))

        async def shown() -> bool:
            found = await watermark()
            return found is not None and type(error).__name__ in (found.status.last_error or "")

        await until(shown)
        assert (await first).payload["count"] == 1
    await watcher.cleanup()


class Waiting:
    """A clock whose sleeps are over at once."""

    def __init__(self, watcher: IncrementalTrigger) -> None:
        self._of = watcher.clock
        self.now, self.monotonic = self._of.now, self._of.monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait for hardly anything."""
        await asyncio.sleep(min(seconds, 0.01))


@ERRORS
async def test_a_start_that_exits_is_tried_again(error: BaseException) -> None:
    """``latest()`` is the source's own code as well."""
    ListTrigger.source.errors.append(error)
    watcher = trigger(start="latest")
    watcher.clock = Waiting(watcher)
    async with aclosing(watcher.run()) as events:
        first = asyncio.create_task(anext(events))

        async def started() -> bool:
            found = await watermark()
            return found is not None and found.started

        await until(started)
        ListTrigger.source.add(1.0, "a")
        assert (await first).payload["count"] == 1
    await watcher.cleanup()


class ExitingTrigger(ListTrigger):
    """Raises, once each, wherever a subclass has code of its own."""

    fault_at: ClassVar[dict[str, BaseException]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._fail("constructor")

    def create_source(self) -> Source:
        """Return the list of the test, or fail."""
        self._fail("source")
        return ClosingSource() if "close" in self.fault_at else super().create_source()

    def start_cursor(self) -> Any:
        """Return where to start, or fail."""
        self._fail("start")
        return (0.0, "")

    def _fail(self, where: str) -> None:
        error = self.fault_at.pop(where, None)
        if error is not None:
            raise error


class ClosingSource(ListSource):
    """Raises when it is given back."""

    async def aclose(self) -> None:
        """Fail."""
        raise ExitingTrigger.fault_at["close"]


@ERRORS
@pytest.mark.parametrize("where", ["source", "start"])
async def test_a_source_whose_making_exits_is_made_again(error: BaseException, where: str) -> None:
    """The next attempt delivers."""
    ExitingTrigger.fault_at = {where: error}
    ListTrigger.source.add(1.0, "a")
    watcher = ExitingTrigger(stored=1, asset_name="list", poll_interval=0.05, start="x")
    watcher.clock = Waiting(watcher)
    async with aclosing(watcher.run()) as events:
        assert (await anext(events)).payload["count"] == 1
    assert ExitingTrigger.fault_at == {}
    await watcher.cleanup()


@ERRORS
async def test_a_source_whose_closing_exits_is_closed(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """Airflow calls the clean-up of all triggers in one loop."""
    ExitingTrigger.fault_at = {"close": error}
    watcher = ExitingTrigger(stored=1, asset_name="list", poll_interval=0.05)
    running = asyncio.create_task(anext(watcher.run()))

    async def polled() -> bool:
        found = await watermark()
        return found is not None and found.started

    await until(polled)
    running.cancel()
    await asyncio.wait([running])
    await watcher.cleanup()
    assert type(error).__name__ in caplog.text


@ERRORS
def test_a_constructor_that_exits_is_a_fault(error: BaseException) -> None:
    """The triggerer builds every trigger of everybody in one process."""
    ExitingTrigger.fault_at = {"constructor": error}
    assert type(error).__name__ in (ExitingTrigger(stored=1, asset_name="list").fault or "")
