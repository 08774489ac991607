"""What keeps a trigger from running shows in its watermark's status, and nothing of it reaches Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from airflow_provider_incremental.core.announcement import Announcement
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.watermark import Watches, Watermark, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.testing.fakes import FakeClock, ListSource
from airflow_provider_incremental.triggers import IncrementalTrigger
from airflow_provider_incremental.triggers._ack import AcknowledgedStream
from airflow_provider_incremental.wiring.stores import open_store

KEY = WatermarkKey("list")


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a store of the test's own."""
    upgrade_embedded(tmp_path / "store.db")
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'store.db'}")


async def watermark() -> Watermark:
    """Return the watermark, made if there was none."""
    async with open_store() as store:
        return await store.load(KEY) or await store.register(KEY, Watches(source="list", cursor="n"))


async def running(trigger: IncrementalTrigger, condition: Callable[[], Awaitable[bool]]) -> None:
    """Run a trigger until the condition holds, and make sure that it still runs then."""
    task = asyncio.create_task(anext(trigger.run()))
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await trigger.cleanup()


async def shown(text: str) -> bool:
    """Whether the status says so."""
    return text in ((await watermark()).status.last_error or "")


class BrokenTrigger(IncrementalTrigger):
    """Fails where it is told to."""

    fails_at = ""

    def create_source(self) -> Source:
        """Return a source that cannot be closed, or fail."""
        if self.fails_at == "source":
            raise LookupError("no such folder")
        return UnclosableSource()

    def start_cursor(self) -> Any:
        """Fail after the source was made."""
        raise LookupError("no such start")


class UnclosableSource(ListSource):
    """Fails when it is given back."""

    async def aclose(self) -> None:
        """Fail."""
        raise OSError("cannot be closed")


@pytest.mark.parametrize(
    ("stored", "fails_at", "text"),
    [
        ({"max_items": 0}, "", "max_items=0"),
        ({}, "source", "no such folder"),
        ({"start": "x"}, "start", "no such start"),
    ],
)
async def test_what_keeps_a_trigger_from_running_is_in_the_status(
    stored: dict[str, Any], fails_at: str, text: str
) -> None:
    """A stored argument that this release refuses, a source that cannot be made, one that cannot even be closed."""
    await watermark()
    trigger = BrokenTrigger(stored=1, asset_name="list", **stored)
    trigger.fails_at = fails_at
    trigger.clock = FakeClock()
    await running(trigger, lambda: shown(text))


class Outcome(NamedTuple):
    """What Airflow says of an event."""

    is_clean: bool


class Trigger:
    """Stands for a trigger whose store fails at a confirmation."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
        self.confirmed: list[Announcement] = []
        self.dropped: list[Announcement] = []

    async def announcements(self, *, confirm_after: float | None) -> Any:
        """Announce nothing."""
        for never in ():
            yield never

    async def confirm(self, announcement: Announcement) -> None:
        """Confirm, or fail."""
        if self.error is not None:
            raise self.error
        self.confirmed.append(announcement)

    def drop(self, announcement: Announcement) -> None:
        """Note what is due again."""
        self.dropped.append(announcement)

    async def cleanup(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError(), asyncio.CancelledError()])
async def test_a_confirmation_that_fails_does_not_end_the_stream(error: BaseException) -> None:
    """Airflow would stop the group, or wait for ever: a driver may cancel its own futures."""
    trigger, announcement = Trigger(error), Announcement(KEY, "store", ())
    await AcknowledgedStream(trigger).advance([(announcement, Outcome(is_clean=True))])
    assert trigger.confirmed == []


async def test_only_events_that_airflow_has_stored_are_confirmed() -> None:
    """The others are due again."""
    trigger = Trigger(None)
    stored, lost = Announcement(KEY, "store", ()), Announcement(KEY, "store", ())
    await AcknowledgedStream(trigger).advance([(stored, Outcome(is_clean=True)), (lost, Outcome(is_clean=False))])
    assert (trigger.confirmed, trigger.dropped) == ([stored], [lost])


async def test_a_confirmation_under_way_ends_when_airflow_stops_the_stream() -> None:
    """A cancellation that is meant for us is obeyed."""
    waiting = asyncio.Event()

    class Hanging(Trigger):
        async def confirm(self, announcement: Announcement) -> None:
            """Wait for a store that does not answer."""
            waiting.set()
            await asyncio.Event().wait()

    advance = AcknowledgedStream(Hanging(None)).advance([(Announcement(KEY, "store", ()), Outcome(is_clean=True))])
    task = asyncio.create_task(advance)
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
