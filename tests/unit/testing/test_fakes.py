"""The fakes do what they say: a test that trusts them must be able to."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing import CrashingStore, FakeClock, ListSource, ProcessDied, fakes

KEY = WatermarkKey("orders")
WATCHES = Watches("a list", "number")


async def test_sleepers_wake_in_order_each_at_its_time() -> None:
    """Time passes from one waking to the next, and what a sleeper starts on the way is part of it."""
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.monotonic()))

    naps = {"a": [3, 3], "b": [2, 2, 2], "c": [2]}
    tasks = [asyncio.create_task(sleeper(name, *each)) for name, each in naps.items()]
    await clock.run_for(5)
    assert woken == [("b", 2), ("c", 2), ("a", 3), ("b", 4)]
    assert clock.monotonic() == 5
    await clock.run_for(1)
    assert woken[4:] == [("a", 6), ("b", 6)]
    assert all(task.done() for task in tasks)


async def test_nobody_sleeps_for_less_than_nothing() -> None:
    """A sleep of zero, or less, lets others run and takes no time."""
    clock = FakeClock()
    await clock.sleep(0)
    await clock.sleep(-5)
    assert clock.monotonic() == 0


async def test_advance_wakes_whoever_has_slept_long_enough() -> None:
    """The clock jumps; late sleepers see the new time."""
    clock = FakeClock()
    seen = []

    async def sleeper() -> None:
        await clock.sleep(3)
        seen.append(clock.monotonic())

    task = asyncio.create_task(sleeper())
    await clock.settle()
    clock.advance(10)
    assert seen == []
    await task
    assert seen == [10]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    """Cancelling a sleeper leaves nothing to wake."""
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await clock.run_for(10)


async def test_a_task_that_spins_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What neither ends nor sleeps is named, instead of hanging the test."""
    monkeypatch.setattr(fakes, "_PATIENCE", 0.05)
    clock = FakeClock()

    async def spin() -> None:
        while True:
            await clock.sleep(0)

    task = asyncio.create_task(spin(), name="the spinner")
    with pytest.raises(TimeoutError, match="the spinner"):
        await clock.run_for(1)
    task.cancel()
    await asyncio.wait([task])


async def test_settle_waits_for_the_tasks_that_are_named() -> None:
    """A task that waits for the test itself is nobody's business when another one is asked for."""
    clock = FakeClock()
    forever = asyncio.create_task(asyncio.Event().wait())
    sleeper = asyncio.create_task(clock.sleep(1))
    await clock.settle(sleeper)
    clock.advance(1)
    await sleeper
    forever.cancel()


def test_the_wall_clock_can_be_set_apart() -> None:
    """A step of the wall clock moves no sleeper and no monotonic time."""
    clock = FakeClock(start=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    clock.advance(1)
    clock.set_wall(-3600)
    assert clock.monotonic() == 1
    assert clock.now() == dt.datetime(2025, 12, 31, 23, 0, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(("when", "made"), [("before", False), ("after", True)])
async def test_a_process_dies_around_an_operation(when: str, *, made: bool) -> None:
    """Before: nothing was done. After: it was done, and nobody learns of it. Then nothing works any more."""
    survivor = MemoryStore()
    store = CrashingStore(survivor)
    store.die(when, "register")
    assert await store.load(KEY) is None
    with pytest.raises(ProcessDied):
        await store.register(KEY, WATCHES)
    assert (await survivor.load(KEY) is not None) == made
    with pytest.raises(ProcessDied):
        await store.identity()
    assert store.dead
    assert store.calls == ["load", "register", "identity"]


async def test_an_operation_fails_so_many_times() -> None:
    """Errors come as often as asked for, on that operation only, and stop when the store is healed."""
    store = CrashingStore(MemoryStore())
    store.fail("before", "register", StoreUnavailableError("gone"), times=2)
    store.fail("after", "report", StoreUnavailableError("gone"), times=9)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await store.register(KEY, WATCHES)
    await store.register(KEY, WATCHES)
    with pytest.raises(StoreUnavailableError):
        await store.report(KEY, PollReport(error="x"))
    watermark = await store.load(KEY)
    assert watermark is not None
    assert watermark.status.last_error == "x"
    store.heal()
    await store.report(KEY, PollReport())


def test_death_passes_through_what_catches_errors() -> None:
    """No ``except Exception`` survives a kill."""
    assert not issubclass(ProcessDied, Exception)


async def test_a_list_source_tells_what_it_was_asked() -> None:
    """Polls are remembered with their cursors, and a source knows that it was closed."""
    source = ListSource()
    source.add(1, "a")
    found = await source.poll(None, 10, [])
    await source.poll(found.high, 10, [])
    await source.aclose()
    assert source.polls == [None, (1, "a")]
    assert source.closed
