"""A replay and a clearing of the log at once: what a consumer was promised is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.stores.sql.tables import claims, consumers
from tests.integration.sql_store_stage import WATCHES, commit, until
from tests.integration.test_sql_store_connections import is_waiting

OpenStore = Callable[..., SqlStore]
LENGTH = 5


async def finished_log(store: SqlStore, key: WatermarkKey) -> Selector:
    """A log that was announced, and that its one consumer has finished."""
    asset = Selector(key.asset_name)
    watermark = await store.register(key, WATCHES)
    for _ in range(LENGTH):
        watermark = await commit(store, watermark)
    await store.confirm(key, [batch.id for batch in await store.history(key)])
    await store.subscribe(asset, "load", "earliest")
    while claim := await store.claim(asset, "load", f"holder of {key}", 60):
        await store.acknowledge(claim)
    return asset


async def test_a_replay_and_a_clearing_at_once_agree(database: str, opened: OpenStore) -> None:
    """The replay was first, and all that it promised is there; or the clearing was, and nothing is promised."""
    ours, theirs = opened(database), opened(database)
    for number in range(10):
        key = WatermarkKey(f"o{number}")
        asset = await finished_log(ours, key)
        given, _ = await asyncio.gather(theirs.replay(key, 1, LENGTH), ours.prune(key, 0.0, 2**62))
        assert len(await ours.pending(asset, "load")) == given["load"]


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_a_clearing_waits_for_a_replay_that_has_begun(database: str, opened: OpenStore) -> None:
    """It sees what is finished only once the replay has said what is not."""
    store, key = opened(database), WatermarkKey("orders")
    asset = await finished_log(store, key)
    rival = create_engine(store_url(database))
    async with rival.connect() as replay, rival.connect() as watch:
        await replay.execute(sa.update(consumers).values(last_seen_at=consumers.c.first_seen_at))
        clearing = asyncio.ensure_future(store.prune(key, 0.0, 2**62))

        async def waits() -> bool:
            await asyncio.sleep(0.15)  # InnoDB shows the same list again to whoever asks more often
            return clearing.done() or await is_waiting(watch)

        await until(waits, "the clearing waits for the consumer")
        await replay.execute(sa.delete(claims))
        await replay.execute(sa.update(consumers).values(start_seq=0, done_seq=0))
        await replay.commit()
        assert await clearing == 0
    await rival.dispose()
    assert len(await store.pending(asset, "load")) == LENGTH


async def test_clearing_does_not_count_as_being_seen(database: str, opened: OpenStore) -> None:
    """A consumer that is gone does not seem to return because its log is cleared."""
    store, key = opened(database), WatermarkKey("orders")
    await finished_log(store, key)
    before = await store.consumers()
    assert await store.prune(key, 0.0, 2**62) == LENGTH
    assert [each.last_seen_at for each in await store.consumers()] == [each.last_seen_at for each in before]
