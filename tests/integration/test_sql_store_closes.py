"""A store is closed in bounded time, whatever its network does."""

from __future__ import annotations

import asyncio
import time

import pytest
from sqlalchemy.engine import make_url

from airflow_provider_incremental.stores.sql.store import SqlStore
from harness.tcp_proxy import proxy_to
from tests.integration.sql_store_stage import KEY, WATCHES, commit, everything

_BOUND = 15.0
_SOON = 4.0


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
@pytest.mark.parametrize("used", ["commit", "everything"])
async def test_a_store_whose_network_hangs_is_closed_all_the_same(database: str, used: str) -> None:
    """A trigger that is cancelled, and a task that ends, do not wait for a server that never answers again."""
    url = make_url(database)
    async with proxy_to(url.host, url.port) as network:
        store = SqlStore(url=url.set(port=network.port).render_as_string(hide_password=False))
        await commit(store, await store.register(KEY, WATCHES))
        if used == "everything":
            await everything(store)
        network.hang()
        began = time.monotonic()
        closing = asyncio.create_task(store.aclose())
        await asyncio.wait([closing], timeout=_BOUND)
        ended = closing.done()
        await network.cut()
        await asyncio.wait([closing], timeout=30)
        assert ended, f"not closed after {time.monotonic() - began:.0f} s"
        await closing


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_an_operation_that_hangs_is_cancelled_and_the_store_closed(database: str) -> None:
    """As when a triggerer is told to stop in the middle of it."""
    url = make_url(database)
    async with proxy_to(url.host, url.port) as network:
        store = SqlStore(url=url.set(port=network.port).render_as_string(hide_password=False))
        watermark = await commit(store, await store.register(KEY, WATCHES))
        network.hang()
        for work in (commit(store, watermark), store.load(KEY), store.due(KEY, 1.0)):
            task = asyncio.create_task(work)
            await asyncio.sleep(0.2)
            task.cancel()
            await asyncio.wait([task], timeout=_BOUND)
            assert task.done()
        closing = asyncio.create_task(store.aclose())
        await asyncio.wait([closing], timeout=_BOUND)
        ended = closing.done()
        await network.cut()
        await asyncio.wait([closing], timeout=30)
        assert ended


async def test_closing_that_is_cancelled_ends_every_connection(postgres: str) -> None:
    """Whoever cannot wait even for that is let go at once, and no connection is left open behind it."""
    url = make_url(postgres)
    async with proxy_to(url.host, url.port) as network:
        store = SqlStore(url=url.set(port=network.port).render_as_string(hide_password=False))
        await everything(store)
        network.hang()
        opened = list(store.database._opened.drivers)
        assert opened
        closing = asyncio.create_task(store.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing], timeout=_SOON)
        assert closing.cancelled()
        assert all(driver.is_closed() for driver in opened)
