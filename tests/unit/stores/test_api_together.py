"""Calls that travel together: what is refused for the size of all of them is none of theirs."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.web.api.limits import Limits
from tests.served import serving

WATCHES = Watches("table orders", "id")


async def test_calls_that_are_too_long_together_travel_apart(tmp_path):
    """Each that the server takes alone is done, once; the one that it does not take fails for itself."""
    store, sizes = MemoryStore(), [3000, 3000, 30_000, 3000, 3000, 3000, 3000]
    async with serving(store, tmp_path, limits=Limits(request_bytes=10_000)) as served:
        client = api_store(served.url)

        async def commit(number, size):
            watermark = await client.register(WatermarkKey(f"asset {number}"), WATCHES)
            batch = NewBatch(low=None, high=1, items=["x" * size], count=1)
            return (await client.commit(watermark, 1, [batch], PollReport()))[0].version

        done = await asyncio.gather(*[commit(*each) for each in enumerate(sizes)], return_exceptions=True)
        await client.aclose()
    refused = done.pop(2)
    assert done == [1] * 6
    with pytest.raises(StoreError, match="more than 10000 bytes"):
        raise refused
    assert sorted([each.version for each in await store.list_watermarks()]) == [0] + [1] * 6
