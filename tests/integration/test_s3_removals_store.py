"""Known keys in a real database: what is read of them is what was committed, in the order of the keys' bytes."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.core.window import StoredMemory
from airflow_provider_incremental.sources import s3_known_blocks
from airflow_provider_incremental.sources.s3_known import KnownKeys
from airflow_provider_incremental.sources.s3_pages import key_order
from airflow_provider_incremental.sources.s3_sweep import Range
from airflow_provider_incremental.stores.sql.store import SqlStore

KEY = WatermarkKey("objects")


async def test_keys_that_databases_compare_in_ways_of_their_own(database: str, monkeypatch: pytest.MonkeyPatch):
    """Upper and lower case, spaces at the end, accents and signs: each is a key and may name a block."""
    monkeypatch.setattr(s3_known_blocks, "_IN_A_BLOCK", 2)
    monkeypatch.setattr(s3_known_blocks, "_NEAR", 1)
    monkeypatch.setattr("airflow_provider_incremental.sources.s3_known._FOLD_FROM_LOGS", 1)
    odd = [*"aA%_\\'\"~}!\n\x7fßéΩ😀", "a ", "a  ", "e\u0301", "ss"]
    keys = sorted([one + other for one in odd for other in odd], key=key_order)
    store = SqlStore(url=database)
    try:
        watermark = await store.register(KEY, Watches(source="s3://landing/", cursor="last_modified,key"))
        known = KnownKeys(prefix="")
        for number in range(4):
            await known.open(StoredMemory(store, KEY), watermark.cursor)
            pieces = await known.commit(high=number, added=keys[number::4])
            watermark, _ = await store.commit(watermark, number, [], PollReport(), pieces)
        fresh = KnownKeys(prefix="")
        await fresh.open(StoredMemory(store, KEY), watermark.cursor)
        assert fresh.noted_to is None
        assert [fresh.absolute(key) async for chunk in fresh.between(Range("")) for key in chunk] == keys
        for prefix in odd:
            there = [fresh.absolute(key) async for chunk in fresh.between(Range(prefix)) for key in chunk]
            assert there == [key for key in keys if key.startswith(prefix)]
        names = [name for name, _ in await store.remembered(KEY, "known/block/", "", 1000)]
        assert len(names) > 50
    finally:
        await store.aclose()
