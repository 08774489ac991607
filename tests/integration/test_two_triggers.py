"""Two triggers of one watermark, each in a process of its own, against a source that is written all the time."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from itertools import pairwise
from multiprocessing.synchronize import Event
from typing import Any

import asyncpg
import pytest

from airflow_provider_incremental import SQLIncrementalQueryTrigger
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.wiring.stores import open_store

SECONDS = 60.0
KEY = WatermarkKey("ticks")


def run_trigger(environment: dict[str, str], begun: Event) -> None:
    """Run a trigger until the process is killed, as a triggerer does."""
    os.environ.update(environment)

    async def run() -> None:
        trigger = SQLIncrementalQueryTrigger(
            asset_name="ticks",
            conn_id="source",
            table="ticks",
            cursor=["at", "id"],
            max_rows=7,
            poll_interval=0.02,
            settle=0.05,
        )
        begun.set()
        async with aclosing(trigger.run()) as events:
            async for _ in events:
                pass

    asyncio.run(run())


async def write(url: str, seconds: float) -> int:
    """Insert rows, some of one statement and so of one time, for as long as that; return how many."""
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE ticks (id bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
    try:
        written = 0
        async with asyncio.timeout(seconds + 60):
            end = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < end:
                await connection.execute("INSERT INTO ticks SELECT FROM generate_series(1, 5)")
                written += 5
                await asyncio.sleep(0.02)
        return written
    finally:
        await connection.close()


async def log_when(count: int) -> tuple[list[Batch], Watermark]:
    """Return the whole batch log once it holds so many items, and the watermark."""
    async with open_store() as store, asyncio.timeout(120):
        while True:
            batches = await store.history(KEY, limit=100_000)
            watermark = await store.load(KEY)  # after the log, which then grows no more
            if watermark is not None and sum(batch.count for batch in batches) >= count:
                return batches[::-1], watermark
            await asyncio.sleep(0.2)


@pytest.mark.timeout(300)
async def test_no_batch_twice_no_gap_and_conflicts_are_counted(
    postgres_server: Any, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """For a minute both poll as fast as they can: each row is in the log once, and each lost race shows."""
    source, store = postgres_server.create_database(), postgres_server.create_database()
    await upgrade(store)
    environment = {
        "AIRFLOW__INCREMENTAL__STORE": store,
        "AIRFLOW_CONN_SOURCE": source.replace("postgresql://", "postgres://"),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    spawn = multiprocessing.get_context("spawn")
    begun = [spawn.Event() for _ in range(2)]
    writing = asyncio.create_task(write(source, SECONDS))
    triggers = [spawn.Process(target=run_trigger, args=(environment, each), daemon=True) for each in begun]
    for trigger in triggers:
        trigger.start()
    try:
        assert all([await asyncio.to_thread(each.wait, 60) for each in begun])
        batches, watermark = await log_when(await writing)
    finally:
        for trigger in triggers:
            os.kill(trigger.pid or 0, signal.SIGKILL)
            trigger.join()
    ids = [item["id"] for batch in batches for item in batch.items or ()]
    assert [id_ for id_, times in Counter(ids).items() if times > 1] == []
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert [batch.seq for batch in batches] == list(range(1, len(batches) + 1))
    assert all(later.low == earlier.high for earlier, later in pairwise(batches))
    assert watermark.version - len(batches) in (0, 1)  # a first poll that finds nothing decides the start
    assert watermark.status.conflicts > 0
    record_property("rows", len(ids))
    record_property("batches", len(batches))
    record_property("conflicts", watermark.status.conflicts)
