"""What goes wrong: it backs off, is logged once, shows in the status, and never ends the feed."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging

import pytest

from airflow_provider_incremental.core.errors import SourceError, StoreUnavailableError, UnsupportedValueError
from airflow_provider_incremental.core.watermark import WatermarkKey, WatermarkStatus
from tests.miniature import Deployment

KEY = WatermarkKey("orders")


class UnspeakableError(Exception):
    """An error that fails when it is asked what it is."""

    def __str__(self) -> str:
        raise ValueError


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as an error."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def test_errors_back_off_up_to_five_minutes(deployment: Deployment) -> None:
    """A source that fails is asked after 10, 20, 40, 80, 160 and then every 300 seconds, and normally once it works."""
    deployment.source.errors.extend([SourceError("down")] * 8)
    deployment.trigger(poll_interval=10.0)
    polls = [0]
    for instant in (0, 10, 30, 70, 150, 310, 610, 910, 1210, 1220):
        await deployment.run_for(instant - polls[-1] - 0.1 if instant else 0)
        before = len(deployment.source.polls)
        await deployment.run_for(0.1 if instant else 0)
        assert (instant, len(deployment.source.polls)) == (instant, len(polls))
        assert instant == 0 or before == len(polls) - 1
        polls.append(instant)


async def test_a_poll_says_when_the_next_one_is_meant_to_be(deployment: Deployment) -> None:
    """After the poll interval, and after an error when it is tried again: so that silence can be told from rest."""
    deployment.source.errors.extend([SourceError("down")] * 2)
    deployment.trigger(poll_interval=30.0)
    for wait, expected in ((0, 30), (30, 60), (60, 30), (30, 30)):
        await deployment.run_for(wait)
        status = (await deployment.watermark()).status
        assert status.last_poll_at == deployment.clock.now()
        assert status.next_poll_at == status.last_poll_at + dt.timedelta(seconds=expected)


async def test_an_error_shows_in_the_status_until_it_is_over(deployment: Deployment) -> None:
    """Last error, since when, failures in a row; then no error, and when the last one was."""
    deployment.source.errors.extend([SourceError("no such table: orders"), ConnectionResetError("by peer")])
    deployment.trigger(poll_interval=10.0)
    await deployment.run_for(0)
    start = deployment.clock.now()
    expected = WatermarkStatus(
        last_poll_at=start,
        next_poll_at=start + dt.timedelta(seconds=10),
        last_error="no such table: orders",
        last_error_at=start,
        failures=1,
    )
    assert (await deployment.watermark()).status == expected
    await deployment.run_for(10)
    second = deployment.clock.now()
    status = (await deployment.watermark()).status
    assert (status.last_error, status.last_error_at, status.failures) == ("ConnectionResetError: by peer", second, 2)
    await deployment.run_for(20)
    assert (await deployment.watermark()).status == WatermarkStatus(
        last_poll_at=deployment.clock.now(),
        next_poll_at=deployment.clock.now() + dt.timedelta(seconds=10),
        last_error_at=second,
    )
    deployment.source.errors.append(SourceError("down again"))
    await deployment.run_for(10)
    assert (await deployment.watermark()).status.failures == 1


async def test_an_error_is_logged_once_per_change(deployment: Deployment, caplog: pytest.LogCaptureFixture) -> None:
    """The same error again says nothing new; another one, and the same one after a recovery, does."""
    caplog.set_level(logging.INFO)
    deployment.source.errors.extend([SourceError("one")] * 3 + [SourceError("two")] * 2)
    deployment.trigger(poll_interval=10.0)
    await deployment.run_for(3000)
    assert [text.rpartition(" ")[2] for text in errors(caplog)] == ["one", "two"]
    assert sum("works again" in record.getMessage() for record in caplog.records) == 1
    deployment.source.errors.append(SourceError("two"))
    await deployment.run_for(100)
    assert [text.rpartition(" ")[2] for text in errors(caplog)] == ["one", "two", "two"]


async def test_an_error_moves_nothing(deployment: Deployment) -> None:
    """An error is never "nothing new": the watermark stays, and what was there is read afterwards."""
    deployment.source.add(1, "a")
    deployment.trigger(poll_interval=10.0)
    await deployment.run_for(1)
    deployment.source.add(2, "b")
    deployment.source.errors.append(SourceError("down"))
    await deployment.run_for(10)
    assert (await deployment.watermark()).cursor == (1, "a")
    await deployment.run_for(10)
    assert (await deployment.watermark()).cursor == (2, "b")


async def test_an_error_does_not_stop_announcements(deployment: Deployment) -> None:
    """What was committed before the source failed is announced though it still fails."""
    for number in range(3):
        deployment.source.add(number, str(number))
    deployment.source.bound = 1
    deployment.trigger(limit=1, poll_interval=10.0, announce_interval=30.0)
    await deployment.run_for(1)
    assert deployment.announced() == [1]
    deployment.source.errors.extend([SourceError("down")] * 50)
    await deployment.run_for(60)
    assert deployment.announced() == [1, 2]


@pytest.mark.parametrize(
    "error",
    [
        SourceError("x"),
        RuntimeError(),
        KeyError("x"),
        StopIteration(),
        StopAsyncIteration(),
        TimeoutError(),
        RecursionError(),
        MemoryError(),
        asyncio.CancelledError("a driver's own"),
        asyncio.InvalidStateError(),
        UnspeakableError(),
        UnicodeEncodeError("ascii", "\ud800", 0, 1, "\ud800\x00"),
        ExceptionGroup("several", [ValueError(), TypeError()]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_error_ends_the_feed(deployment: Deployment, error: BaseException) -> None:
    """Whatever a source raises is one failed poll; the next one delivers."""
    deployment.source.add(1, "a")

    async def fail() -> None:
        deployment.source.before_return = None
        raise error

    deployment.source.before_return = fail
    trigger = deployment.trigger(poll_interval=10.0)
    await deployment.run_for(0)
    assert (await deployment.watermark()).status.failures == 1
    assert type(error).__name__ in ((await deployment.watermark()).status.last_error or "") or isinstance(
        error, SourceError
    )
    await deployment.run_for(100)
    assert not trigger.task.done()
    assert deployment.announced() == [1]


@pytest.mark.parametrize(
    "operation",
    ["load", "register", "commit", "report", "due", "identity", "begin_announcement", "confirm", "seen"],
)
async def test_a_drivers_own_cancellation_is_an_error(deployment: Deployment, operation: str) -> None:
    """A store whose driver cancels what it waits for is one more store that fails, whichever operation it is."""
    cancelled = 0

    async def cancel() -> None:
        nonlocal cancelled
        cancelled += 1
        if cancelled == 2:
            del trigger.store.before[operation]
        raise asyncio.CancelledError

    deployment.source.lateness = 10.0
    deployment.source.add(1, "a")
    trigger = deployment.trigger()
    trigger.store.before[operation] = cancel
    await deployment.run_for(60)
    deployment.source.add(2, "b")
    deployment.source.errors.extend([SourceError("down")] * 2)
    await deployment.run_for(400)
    assert not trigger.task.done()
    assert cancelled == 2
    assert set(deployment.announced()) == {1, 2}


async def test_cancellation_ends_the_feed(deployment: Deployment) -> None:
    """Who cancels the task, in a sleep or in a poll, has it ended."""
    trigger = deployment.trigger()
    await deployment.run_for(1)
    await trigger.stop()
    assert trigger.task.cancelled()

    polling = asyncio.Event()

    async def hang() -> None:
        polling.set()
        await asyncio.get_running_loop().create_future()

    deployment.source.before_return = hang
    trigger = deployment.trigger()
    await deployment.run_for(1)  # it honours the poll before it
    deployment.clock.advance(10)
    await polling.wait()
    await trigger.stop()
    assert trigger.task.cancelled()
    assert (await deployment.watermark()).status.failures == 0


async def test_a_store_that_is_down_at_the_start(deployment: Deployment) -> None:
    """The store's absence is one more error: the feed waits for it, without spinning, and then delivers."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(poll_interval=10.0)
    trigger.store.fail("before", "load", StoreUnavailableError("gone"), times=5)
    trigger.store.fail("before", "report", StoreUnavailableError("gone"), times=5)
    await deployment.run_for(100)
    assert trigger.store.calls.count("load") < 10
    await deployment.run_for(1000)
    assert deployment.announced() == [1]


async def test_a_store_that_cannot_say_what_is_due_shows_in_the_status(
    deployment: Deployment, caplog: pytest.LogCaptureFixture
) -> None:
    """Polls that work do not hide that nothing is announced: not in the status, and the log says it once."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger(poll_interval=10.0)
    trigger.store.fail("before", "due", UnsupportedValueError("unknown value tag"), times=30)
    await deployment.run_for(60)
    status = (await deployment.watermark()).status
    assert (status.last_error, status.failures) == ("unknown value tag", 0)
    assert len(errors(caplog)) == 1
    await deployment.run_for(200)
    assert deployment.announced() == [1]
    assert (await deployment.watermark()).status.last_error is None


async def test_a_confirmation_that_is_not_stored_is_made_up_for(deployment: Deployment) -> None:
    """The batch is announced again, and confirmed then."""
    deployment.source.add(1, "a")
    trigger = deployment.trigger()
    trigger.store.fail("before", "confirm", StoreUnavailableError("gone"))
    await deployment.run_for(600)
    assert deployment.announced() == [1, 1]
    assert [each.announced_at is not None for each in await deployment.store.history(KEY)] == [True]


async def test_a_drivers_own_cancellation_is_no_end_of_who_confirms(deployment: Deployment) -> None:
    """Airflow confirms in a task of its own, which goes on though the store's driver cancels what it waits for."""

    async def cancel() -> None:
        raise asyncio.CancelledError

    deployment.source.add(1, "a")
    trigger = deployment.trigger(confirm_after=None)
    await deployment.run_for(0)
    trigger.store.before["confirm"] = cancel
    await trigger.feed.confirm(trigger.yielded[0])
    assert [each.announced_at for each in await deployment.store.history(KEY)] == [None]
