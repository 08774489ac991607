"""Calls that wait share an answer, which begins after each of them, and not too soon after the one before."""

from __future__ import annotations

import asyncio

from airflow_provider_incremental.sources.sql_sharing import JoinedCalls


async def test_those_that_wait_share_one_answer_that_began_after_them() -> None:
    """Nobody gets the answer of a run that had begun before."""
    gate, begun = asyncio.Event(), 0

    async def run() -> int:
        nonlocal begun
        begun += 1
        number = begun
        await gate.wait()
        return number

    calls = JoinedCalls(run)
    first = asyncio.create_task(calls())
    while not begun:
        await asyncio.sleep(0)
    others = [asyncio.create_task(calls()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await first == 1
    assert await asyncio.gather(*others) == [2] * 5


async def test_runs_keep_apart_and_all_who_come_meanwhile_share_the_next() -> None:
    """Forty who come one after the other make two runs, not forty."""
    loop, times = asyncio.get_running_loop(), []

    async def run() -> None:
        times.append(loop.time())

    calls = JoinedCalls(run, apart=0.2)
    await calls()
    waiting = []
    for _ in range(40):
        waiting.append(asyncio.create_task(calls()))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert len(times) == 2
    assert times[1] - times[0] >= 0.2


async def test_a_run_that_fails_fails_those_who_shared_it_only() -> None:
    """The next call begins anew."""
    fails = [True]

    async def run() -> str:
        if fails.pop() if fails else False:
            raise ConnectionError("gone")
        return "well"

    calls = JoinedCalls(run)
    ends = await asyncio.gather(calls(), calls(), return_exceptions=True)
    assert [type(end) for end in ends] == [ConnectionError] * 2
    assert await calls() == "well"
