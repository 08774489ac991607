"""The connection that PostgreSQL's commits keep at hand: used again, replaced when it is old or dead, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.watermark import PollReport, WatermarkKey
from airflow_provider_incremental.stores.sql import spare
from airflow_provider_incremental.stores.sql.spare import driver_of
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.integration.sql_store_stage import KEY, WATCHES, batch_of, commit

OpenStore = Callable[..., SqlStore]


async def backend(store: SqlStore) -> int:
    """The server's process that the next commit would talk to."""

    async def ask(connection: AsyncConnection) -> int:
        return int(driver_of(connection).get_server_pid())

    return await store.database.driver_statement(ask)


async def test_commits_in_a_row_use_one_connection(postgres: str, opened: OpenStore) -> None:
    """The same server process serves them all, and no operation holds it in between."""
    store = opened(postgres)
    watermark = await store.register(KEY, WATCHES)
    first = await backend(store)
    for _ in range(5):
        watermark = await commit(store, watermark)
        assert await backend(store) == first
        assert store.database.lent == 0


async def test_commits_at_once_use_several_connections(postgres: str, opened: OpenStore) -> None:
    """Who finds the connection in use takes one from the pool; afterwards one is at hand, the others are back."""
    store = opened(postgres)
    watermarks = [await store.register(WatermarkKey("orders", "default", str(n)), WATCHES) for n in range(8)]
    for _ in range(3):
        watermarks = await asyncio.gather(*(commit(store, each) for each in watermarks))
    assert [each.version for each in watermarks] == [3] * 8
    assert store.database.lent == 0
    assert store.database.engine.pool.checkedout() == 1


async def test_an_old_connection_is_left_to_the_pool(
    postgres: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is older than the pool would allow is not kept."""
    store = opened(postgres)
    watermark = await commit(store, await store.register(KEY, WATCHES))
    kept = store.database._spare._connection
    monkeypatch.setattr(spare, "RECYCLE", 0)
    await commit(store, watermark)
    assert store.database._spare._connection is not kept
    assert kept is not None
    assert kept.closed


async def test_a_conflict_keeps_the_connection(postgres: str, opened: OpenStore) -> None:
    """An answer of the server, also a refusal, is no reason to connect anew."""
    store = opened(postgres)
    watermark = await store.register(KEY, WATCHES)
    new = batch_of(0)
    await store.commit(watermark, 1, [new], PollReport())
    first = await backend(store)
    with pytest.raises(ConflictError):
        await store.commit(watermark, 1, [NewBatch(low=0, high=1)], PollReport())
    loaded = await store.load(KEY)
    assert loaded is not None
    with pytest.raises(ConflictError):
        await store.commit(loaded, 1, [new], PollReport())
    assert await backend(store) == first


async def test_a_store_that_closes_under_a_commit_leaves_no_connection_open(postgres: str) -> None:
    """A commit that ends after its store was closed closes its connection."""
    store = SqlStore(url=postgres)
    inside, go_on = asyncio.Event(), asyncio.Event()

    async def slow(connection: AsyncConnection) -> Any:
        inside.set()
        await go_on.wait()
        return driver_of(connection)

    task = asyncio.ensure_future(store.database.driver_statement(slow))
    await inside.wait()
    await store.aclose()
    go_on.set()
    assert (await task).is_closed()
    assert store.database._spare.held == 0
