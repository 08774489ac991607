"""A row that this release cannot read stands in nobody else's way, is kept, and is named by whoever needs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.integration.sql_store_stage import ASSET, KEY, WATCHES, commit

OpenStore = Callable[..., SqlStore]
FUTURE = '{"$vector": "1,2,3"}'
UNREADABLE = [FUTURE, '{"$decimal": "many"}', "[" * 100_000, '{"half": ']
"""Of a newer release, of a hand that wrote it, and of none."""


async def change(store: SqlStore, table: str, column: str, text: str, **row: Any) -> None:
    """Write a value behind the store's back."""
    where = sa.and_(*(sa.column(name) == value for name, value in row.items()))
    statement = sa.update(sa.table(table, sa.column(column), *map(sa.column, row))).where(where).values({column: text})
    async with store.database.engine.begin() as connection:
        assert (await connection.execute(statement)).rowcount == 1


async def log_of(store: SqlStore, length: int, consumer: str = "load") -> None:
    """Commit so many batches, for a consumer that wants them all."""
    watermark = await store.register(KEY, WATCHES)
    for _ in range(length):
        watermark = await commit(store, watermark)
    await store.subscribe(ASSET, consumer, "earliest")


@pytest.mark.parametrize("text", UNREADABLE, ids=["newer", "wrong", "deep", "cut"])
async def test_a_batch_with_an_unreadable_edge_is_announced_with_the_others(
    database: str, opened: OpenStore, text: str
) -> None:
    """What is due is due, whoever can read its cursor: the announcement says that it cannot be read."""
    store = opened(database)
    await log_of(store, 3)
    await change(store, "asset_watermark_batches", "low", text, seq=1)
    due = await store.due(KEY, 300)
    assert [batch.seq for batch in due] == [1, 2, 3]
    assert due[0].low["unreadable"] == text[:200]
    assert due[0].low["because"]
    assert [batch.high for batch in due] == [1, 2, 3]


async def test_items_that_cannot_be_read_are_not_sent_along(database: str, opened: OpenStore) -> None:
    """An announcement names the batch without its items, and those of the next come with it."""
    store = opened(database)
    await log_of(store, 2)
    await change(store, "asset_watermark_batches", "items", f"[{FUTURE}]", seq=1)
    assert [batch.items for batch in await store.due(KEY, 300, (), 1000)] == [None, [1]]
    assert [batch.items for batch in await store.history(KEY)] == [[1], None]


@pytest.mark.parametrize("column", ["low", "high", "items"])
async def test_a_consumer_gets_the_others_first_and_then_the_reason(
    database: str, opened: OpenStore, column: str
) -> None:
    """The unreadable batch is taken by nobody, so no lease and no attempt is spent on it; the error names it."""
    store = opened(database)
    await log_of(store, 3)
    original = '["x"]' if column == "items" else "0"
    await change(store, "asset_watermark_batches", column, f"[{FUTURE}]", seq=1)
    claims = [await store.claim(ASSET, "load", f"worker {number}", 300) for number in range(2)]
    assert [claim and claim.batch.seq for claim in claims] == [2, 3]
    for claim in claims:
        assert claim is not None
        await store.acknowledge(claim)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"of batch 1 of watermark .*orders.*\$vector.*upgrade"):
            await store.claim(ASSET, "load", "worker 3", 300)
    assert [batch.seq for batch in await store.pending(ASSET, "load", free=True)] == [1]
    await change(store, "asset_watermark_batches", column, original, seq=1)
    after = await store.claim(ASSET, "load", "worker 4", 300)
    assert after is not None
    assert (after.batch.seq, after.attempt) == (1, 1)


async def test_many_unreadable_batches_hide_no_other(database: str, opened: OpenStore) -> None:
    """However many there are at the head of a log, the first that can be read is found behind them."""
    store = opened(database)
    await log_of(store, 40)
    for seq in range(1, 40):
        await change(store, "asset_watermark_batches", "items", f"[{FUTURE}]", seq=seq)
    claim = await store.claim(ASSET, "load", "worker", 300)
    assert claim is not None
    assert claim.batch.seq == 40
    await store.acknowledge(claim)
    with pytest.raises(StoreError, match="batch 1 of watermark"):
        await store.claim(ASSET, "load", "worker", 300)


async def test_a_consumer_in_order_overtakes_no_unreadable_batch(database: str, opened: OpenStore) -> None:
    """Whoever asked for order is told what is in the way, and the other watermarks of the asset go on."""
    store, other = opened(database), WatermarkKey("orders", "default", "other")
    await log_of(store, 2)
    await commit(store, await store.register(other, WATCHES))
    await store.subscribe(ASSET, "load", "earliest")
    await change(store, "asset_watermark_batches", "items", f"[{FUTURE}]", seq=1, watermark_id=KEY.id)
    claim = await store.claim(ASSET, "load", "worker 1", 300, ordered=True)
    assert claim is not None
    assert claim.batch.key == other
    with pytest.raises(StoreError, match="batch 1 of watermark"):
        await store.claim(ASSET, "load", "worker 2", 300, ordered=True)


async def test_a_claim_in_a_transaction_of_its_caller_goes_on_to_the_next(database: str, opened: OpenStore) -> None:
    """As the API does it, whose answer is part of the claim: the batch is taken with it, and the bad one is not."""
    store = opened(database)
    await log_of(store, 2)
    await change(store, "asset_watermark_batches", "items", f"[{FUTURE}]", seq=1)

    async def work() -> str:
        claim = await store.claim(ASSET, "load", "worker", 300)
        assert claim is not None
        return str(claim.batch.seq)

    assert await store.once("1" * 32, work) == "2"
    assert await store.once("1" * 32, work) == "2"
    assert [batch.seq for batch in await store.pending(ASSET, "load", free=True)] == [1]


async def test_an_unreadable_cursor_hides_no_other_watermark(database: str, opened: OpenStore) -> None:
    """The list has them all, and says of the one what is wrong with it."""
    store = opened(database)
    for name in ("a", "b"):
        await commit(store, await store.register(WatermarkKey(name), WATCHES))
    await change(store, "asset_watermarks", "cursor", FUTURE, asset_name="a")
    first, second = await store.list_watermarks()
    assert first.cursor["unreadable"] == FUTURE
    assert "newer release" in first.cursor["because"]
    assert second.cursor == 1


async def test_nobody_polls_from_a_cursor_that_cannot_be_read(database: str, opened: OpenStore) -> None:
    """The trigger is told which watermark it is; a rewind sets it anew, whatever stands there."""
    store = opened(database)
    await commit(store, await store.register(KEY, WATCHES))
    await change(store, "asset_watermarks", "cursor", FUTURE, asset_name="orders")

    async def register() -> object:
        return await store.register(KEY, WATCHES)

    async def load() -> object:
        return await store.load(KEY)

    works: list[Callable[[], Awaitable[object]]] = [register, load]
    for work in works:
        with pytest.raises(StoreError, match=r"the cursor of watermark .*orders.*\$vector.*upgrade"):
            await work()
    assert (await store.rewind(KEY, 5, reread=False)).cursor == 5
    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.cursor == 5


async def test_what_was_seen_is_not_forgotten_since_it_cannot_be_read(database: str, opened: OpenStore) -> None:
    """Without the edge of a batch, its items could come a second time: the poll waits, and says for what."""
    store = opened(database)
    await log_of(store, 2)
    await change(store, "asset_watermark_batches", "high", FUTURE, seq=1)
    with pytest.raises(StoreError, match=r"batch 1 of watermark .*orders.*\$vector"):
        await store.seen(KEY, 0, None, 10)
