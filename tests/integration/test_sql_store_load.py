"""A whole triggerer on one store: hundreds of triggers at once in one event loop, with a handful of connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore

TRIGGERS = 200
OpenStore = Callable[..., SqlStore]


async def test_hundreds_of_triggers_share_a_handful_of_connections(database: str, opened: OpenStore) -> None:
    """Two hundred watermarks do everything at once: none fails, none waits for ever."""
    store = opened(database)

    async def trigger(number: int) -> None:
        key = WatermarkKey("orders", "default", f"part{number}")
        watermark = await store.register(key, Watches("table orders", "id"))
        for step in range(2):
            new = NewBatch(low=step, high=step + 1, items=[number], count=1)
            watermark, _ = await store.commit(watermark, step + 1, [new], PollReport())
            due = await store.due(key, 60)
            await store.confirm(key, [batch.id for batch in due])
        await store.report(key, PollReport())

    await asyncio.gather(*(trigger(number) for number in range(TRIGGERS)))
    pool = store.database.engine.pool
    assert store.database.lent == 0
    assert pool.checkedin() <= 5
    watermarks = await store.list_watermarks(Selector("orders"))
    assert [each.version for each in watermarks] == [2] * TRIGGERS


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_writer_that_is_cancelled_in_the_queue_leaves_it(database: str, opened: OpenStore) -> None:
    """Writers of one process stand in line for SQLite's lock: one that gives up holds up nobody."""
    store = opened(database)
    key = WatermarkKey("orders")
    await store.register(key, Watches("table orders", "id"))
    reports = [asyncio.ensure_future(store.report(key, PollReport(conflicts=1))) for _ in range(40)]
    await asyncio.sleep(0)
    for report in reports[1::2]:
        report.cancel()
    await asyncio.wait(reports)
    await store.report(key, PollReport(conflicts=1))
    watermark = await store.load(key)
    assert watermark is not None
    assert 21 <= watermark.status.conflicts <= 41
