"""An operation of the store that is cancelled gives its connection back, wherever it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from itertools import count
from typing import Any

from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.integration.sql_store_stage import KEY, everything, until

OpenStore = Callable[..., SqlStore]


class CancelledAt:
    """An operation whose task is cancelled when it waits for the so-manieth time."""

    def __init__(self, work: Coroutine[Any, Any, Any], wait: int) -> None:
        self._work = work
        self._wait = wait
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        task = asyncio.current_task()
        assert task is not None
        go_on = partial(steps.send, None)
        for number in count(1):
            try:
                waited_for = go_on()
            except StopIteration as ended:
                return ended.value
            if number == self._wait:
                self.reached = True
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield waited_for
            except BaseException as error:
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(steps.send, None)
        return None


async def test_an_operation_cancelled_at_any_wait_gives_its_connection_back(database: str, opened: OpenStore) -> None:
    """Cancelled at the first, second, ... last wait: no connection stays out, and the store goes on working."""
    store = opened(database)
    await store.identity()
    reached = True
    wait = 0
    while reached:
        wait += 1
        cancelled = CancelledAt(everything(store), wait)
        task = asyncio.ensure_future(_run(cancelled))
        await asyncio.wait([task])
        reached = cancelled.reached
        assert task.cancelled() or (task.exception() is None)
        await until(lambda: store.database.lent == 0, f"connections back after a cancel at wait {wait}")
    assert wait > 10
    await everything(store)
    watermark = await store.load(KEY)
    assert watermark is not None
    log = await store.history(KEY, limit=10_000)
    assert watermark.version == watermark.last_seq == len(log)
    assert [batch.seq for batch in log] == list(range(len(log), 0, -1))


async def _run(work: Awaitable[Any]) -> None:
    await work
