"""Odd keys all the way: from a listing, one a batch, through the log of a real database, to a consumer."""

from __future__ import annotations

import asyncio
import unicodedata
from contextlib import aclosing

import pytest

from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_pages import key_order
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.unit.sources.s3_fake import FakeBucket

KEY = WatermarkKey("objects")
ODD = [
    *(
        "nul\x00inside",
        "\x01\x1f\x7f",
        "lone\udc80byte",
        "\ufffe\uffff",
        "emoji😀",
        "a//b",
        "/lead",
        "../up",
        "tail ",
        "%25+ ",
    ),
    *(unicodedata.normalize(form, "Ångström é") for form in ("NFC", "NFD")),
    *("ß", "SS", "ss", "'\"\\;--", "x" * 1024, "é" * 512),
]


@pytest.mark.parametrize("source", [S3KeySource, S3KeyOrderSource])
async def test_odd_keys_one_by_one(database: str, source):
    """Each key stands in a watermark on its way, and every process begins anew: all come once, to the byte."""
    bucket = FakeBucket(page_size=2)
    for key in ODD:
        bucket.put(key, modified=1)
    store = SqlStore(url=database)
    pace = {"poll_interval": 0.01, "announce_interval": 0.01, "redeliver_after": 300.0, "confirm_after": None}
    try:
        async with asyncio.timeout(60):
            while len(await store.history(KEY, limit=1000)) < len(ODD):
                settings = FeedSettings(start="earliest", limit=1, **pace)
                opened = source(bucket="landing", client=bucket)
                feed = Feed(key=KEY, store=store, source=opened, settings=settings, clock=SystemClock())
                async with aclosing(feed.announcements()) as announcements:
                    await feed.confirm(await anext(announcements))
        batches = await store.history(KEY, limit=1000)
    finally:
        await store.aclose()
    keys = [item["key"] for batch in reversed(batches) for item in batch.items]
    assert keys == sorted(ODD, key=key_order if source is S3KeyOrderSource else None)
