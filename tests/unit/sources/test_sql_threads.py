"""Blocking calls: bounded threads, answers and errors brought back, nobody kept waiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from airflow_provider_incremental.sources.sql_threads import BlockingCalls, NoThreadFreeError


def nothing() -> None:
    """Give up without a word."""


async def test_an_answer_and_an_error_come_back() -> None:
    """What the call returns is returned, what it raises is raised, off the event loop's thread."""
    calls = BlockingCalls(name="test", limit=1)
    assert await calls.run(threading.get_ident, seconds=5, give_up=nothing) != threading.get_ident()
    with pytest.raises(KeyError):
        await calls.run(lambda: {}["x"], seconds=5, give_up=nothing)


async def test_a_call_that_hangs_keeps_its_slot_until_it_ends() -> None:
    """Whoever waits is told after his time; the next one finds no thread, until the first has ended."""
    calls = BlockingCalls(name="test", limit=1)
    end = threading.Event()
    told = []
    with pytest.raises(TimeoutError):
        await calls.run(end.wait, seconds=0.05, give_up=lambda: told.append("given up"))
    assert told == ["given up"]
    with pytest.raises(NoThreadFreeError):
        await calls.run(nothing, seconds=0.05, give_up=nothing)
    end.set()
    assert await calls.run(lambda: 5, seconds=5, give_up=nothing) == 5


async def test_a_task_that_is_cancelled_gives_up_its_call() -> None:
    """Cancellation interrupts the driver as a time-out does, and the slot comes back with the thread."""
    calls = BlockingCalls(name="test", limit=1)
    begun, end = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        end.wait()

    task = asyncio.create_task(calls.run(hang, seconds=60, give_up=end.set))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await calls.run(lambda: 5, seconds=5, give_up=nothing) == 5


async def test_no_more_threads_than_slots_run_at_once() -> None:
    """Fifty calls through three slots: all answered, never more than three at work."""
    calls = BlockingCalls(name="test", limit=3)
    lock = threading.Lock()
    working: list[int] = [0, 0]

    def work() -> None:
        with lock:
            working[0] += 1
            working[1] = max(working)
        threading.Event().wait(0.001)
        with lock:
            working[0] -= 1

    await asyncio.gather(*(calls.run(work, seconds=30, give_up=nothing) for _ in range(50)))
    assert working[0] == 0
    assert 1 <= working[1] <= 3


def test_a_hanging_thread_does_not_keep_the_process() -> None:
    """The interpreter ends at once, and a thread whose event loop is gone ends in silence."""
    code = """
import asyncio, threading
from airflow_provider_incremental.sources.sql_threads import BlockingCalls

async def main():
    calls = BlockingCalls(name="test", limit=2)
    late = threading.Event()
    for call in (threading.Event().wait, late.wait):
        try:
            await calls.run(call, seconds=0.01, give_up=lambda: None)
        except TimeoutError:
            print("given up")
    return late

asyncio.run(main()).set()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("given up\ngiven up\n", "")
