"""What a test of consumers writes into the configured store, and reads from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import JournalEntry
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.wiring.stores import open_store

__all__ = ["ORDERS", "commit", "identity", "in_store", "payload", "waiting"]

ORDERS = WatermarkKey("orders")


def in_store(work: Callable[[WatermarkStore], Any]) -> Any:
    """Do something with the configured store."""

    async def run() -> Any:
        async with open_store() as store:
            return await work(store)

    return asyncio.run(run())


_LIST = Watches(source="list", cursor="n")


def commit(*batches: list[Any], key: WatermarkKey = ORDERS, watches: Watches = _LIST) -> list[str]:
    """Commit batches of these items, each up to their number, and return their ids."""

    async def work(store: WatermarkStore) -> list[str]:
        watermark = await store.register(key, watches)
        new = [NewBatch(low=None, high=len(items), items=items, count=len(items)) for items in batches]
        _, committed = await store.commit(watermark, new[-1].high, new, PollReport())
        return [batch.id for batch in committed]

    return in_store(work)


def waiting(consumer: str) -> list[int]:
    """Return the sequence numbers that a consumer has not acknowledged."""

    async def work(store: WatermarkStore) -> list[int]:
        return [batch.seq for batch in await store.pending(Selector("orders"), consumer)]

    return in_store(work)


def payload(store: str, *ids: str, asset: str = "orders") -> dict[str, Any]:
    """Return an event's payload as far as a consumer reads it."""
    return {"schema": 1, "store": store, "asset": asset, "batches": [{"id": each} for each in ids]}


def identity() -> str:
    """Return the identity of the configured store."""

    async def work(store: WatermarkStore) -> str:
        return await store.identity()

    return in_store(work)


def journal() -> list[JournalEntry]:
    """Return what was changed by hand."""

    async def work(store: WatermarkStore) -> list[JournalEntry]:
        return await store.journal()

    return in_store(work)
