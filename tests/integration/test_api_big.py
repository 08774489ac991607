"""Ten megabytes through the API: kept exactly, and no trigger that shares the event loop waits for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.stores.api.store import api_store
from tests.integration.sql_store_stage import WATCHES
from tests.integration.test_api_faults import Server
from tests.loop_share import loop_share

KEY = WatermarkKey("big")
ITEMS = [{"id": number, "text": "x" * 80} for number in range(100_000)]


@pytest.mark.timeout(200)
async def test_ten_megabytes_hold_up_nobody(postgres_database: str, tmp_path: Path) -> None:
    """It is committed in many small pieces, between which the event loop has its turns, and claimed as it was."""
    await upgrade(postgres_database)
    server = Server(postgres_database, tmp_path)
    await server.start()
    store = api_store(f"api+http://:{server.token}@127.0.0.1:{server.port}?timeout=100")
    try:
        watermark = await store.register(KEY, WATCHES)
        await store.subscribe(Selector("big"), "load", "earliest")
        batch = NewBatch(
            low=None, high=1, items=ITEMS, count=len(ITEMS), fingerprints=[b"0123456789abcdef"] * len(ITEMS)
        )
        async with loop_share() as share:
            await store.commit(watermark, 1, [batch], PollReport())
        assert share.longest < 1 / 8
        claim = await store.claim(Selector("big"), "load", "me", 60.0)
        assert claim.batch.items == ITEMS
        [seen] = await store.seen(KEY, 0, None, 10)
        await store.acknowledge(claim)
        assert len(seen.fingerprints) == len(ITEMS)
    finally:
        await store.aclose()
        await server.kill()
