"""What a test does to one watermark of a store, and how it waits for what must come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore

__all__ = ["ASSET", "KEY", "NOTHING", "WATCHES", "batch_of", "commit", "everything", "until"]

KEY = WatermarkKey("orders")
ASSET = Selector("orders")
WATCHES = Watches("table orders", "id")
NOTHING = PollReport()


async def until(condition: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait for something that happens by itself, with a generous deadline."""
    deadline = time.monotonic() + 30
    while True:
        met = condition()
        if met if isinstance(met, bool) else await met:
            return
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        await asyncio.sleep(0.01)


def batch_of(number: int) -> NewBatch:
    """A batch with one item."""
    return NewBatch(low=number, high=number + 1, items=[number], count=1)


async def commit(store: SqlStore, watermark: Watermark) -> Watermark:
    """Commit one batch."""
    moved, _ = await store.commit(watermark, watermark.version + 1, [batch_of(watermark.version)], NOTHING)
    return moved


async def everything(store: SqlStore) -> None:
    """One operation of each kind: single statement, transaction, and several of them in a row."""
    await commit(store, await store.register(KEY, WATCHES))
    await store.report(KEY, NOTHING)
    await store.due(KEY, 60)
    await store.subscribe(ASSET, "load", "earliest")
    claim = await store.claim(ASSET, "load", "holder", 3600)
    if claim:
        await store.renew(claim, 3600)
        await store.acknowledge(claim)
    await store.history(KEY)
