"""Waiting for a time or for something else, whichever comes first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_incremental.core.clock import sleep_unless
from airflow_provider_incremental.testing.fakes import FakeClock


@pytest.mark.parametrize("first", ["time", "future"])
async def test_both_at_once_are_one_end(first: str) -> None:
    """Whichever is noticed first, nothing is raised in the event loop's own callbacks."""
    loop, clock = asyncio.get_running_loop(), FakeClock()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    over = loop.create_future()
    waiting = asyncio.create_task(sleep_unless(clock, 5.0, over))
    await clock.settle(waiting)
    if first == "time":
        clock.advance(5.0)
        over.set_result(None)
    else:
        over.set_result(None)
        clock.advance(5.0)
    await waiting
    await asyncio.sleep(0)
    assert complaints == []


async def test_what_is_done_already_is_not_waited_for() -> None:
    """A future that was done before ends the sleep as it begins."""
    clock = FakeClock()
    over = asyncio.get_running_loop().create_future()
    over.set_result(None)
    await sleep_unless(clock, 5.0, over)
    assert clock.monotonic() == 0


async def test_a_cancellation_is_one() -> None:
    """Who is told to stop while it waits does not go on as if the time had passed."""
    clock = FakeClock()
    waiting = asyncio.create_task(sleep_unless(clock, 5.0, asyncio.get_running_loop().create_future()))
    await clock.settle(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
