"""The store reads a handful of rows of a log, however long the log has grown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.store import SqlStore

KEY = WatermarkKey("orders")
ASSET = Selector("orders")
WATCHES = Watches("table orders", "id")
HOUR = 3600.0
LENGTH = 100_000
OPEN = 5
ROUNDS = 12  # PostgreSQL makes its generic plans after five
OpenStore = Callable[..., SqlStore]

_NUMBERS = {
    "postgresql": "SELECT n FROM generate_series(1, {length}) AS s (n)",
    "mysql": "SELECT seq AS n FROM seq_1_to_{length}",
}
_LOG = """
INSERT INTO asset_watermark_batches
    (watermark_id, seq, id, kind, low, high, {count}, items, items_bytes, fingerprints, committed_at, announced_at)
SELECT '{id}', n, {padded}, 'added', '1', '2', 1, '[]', 2, '', {time}, {announced} FROM ({numbers}) numbers
"""
_CLAIMS = """
INSERT INTO asset_watermark_claims (watermark_id, consumer, seq, state, holder, attempt, claimed_at, lease_until)
SELECT '{id}', 'load', n, 'acknowledged', 'somebody', 1, {time}, {time} FROM ({numbers}) numbers
"""


async def long_log(store: SqlStore, length: int, *, finished: bool = True) -> None:
    """A watermark whose every batch was announced and acknowledged, or none of them; and then a few that were not."""
    engine = store.database.engine
    backend = engine.dialect.name
    await store.register(KEY, WATCHES)
    await store.subscribe(ASSET, "load", "earliest")
    terms = {
        "id": KEY.id,
        "numbers": _NUMBERS[backend].format(length=length),
        "time": "TIMESTAMP '2020-01-01 00:00:00'",
        "announced": "TIMESTAMP '2020-01-01 00:00:00'" if finished else "NULL",
        "count": '"count"' if backend == "postgresql" else "`count`",
        "padded": "lpad(CAST(n AS CHAR(32)), 32, '0')" if backend == "mysql" else "lpad(n::text, 32, '0')",
    }
    async with engine.begin() as connection:
        for statement in (_LOG, _CLAIMS) if finished else (_LOG,):
            await connection.exec_driver_sql(statement.format(**terms))
        await connection.execute(sa.text("UPDATE asset_watermarks SET last_seq = :n"), {"n": length})
        done = {"n": length if finished else 0}
        await connection.execute(sa.text("UPDATE asset_watermark_consumers SET done_seq = :n"), done)
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in ("asset_watermark_batches", "asset_watermark_claims"):
            await connection.exec_driver_sql(f"ANALYZE {'TABLE ' if backend == 'mysql' else ''}{table}")
    watermark = await store.load(KEY)
    assert watermark is not None
    new = [NewBatch(low=1, high=2, items=[number], count=1) for number in range(OPEN)]
    await store.commit(watermark, 2, new, PollReport())


async def a_day(store: SqlStore) -> None:
    """Everything that happens again and again: what is due, announced, claimed, renewed, acknowledged, listed."""
    due = await store.due(KEY, HOUR, limit=OPEN)
    assert len(due) == OPEN
    assert await store.begin_announcement(KEY, due[-1].seq, 0) == 0
    assert len(await store.pending(ASSET, "load", limit=OPEN)) == OPEN
    await store.seen(KEY, due[0].seq - 10, None, 100)
    await store.history(KEY, limit=10)
    claim = await store.claim(ASSET, "load", "holder", HOUR)
    assert claim is not None
    await store.renew(claim, HOUR)
    await store.release(claim)
    claim = await store.claim(ASSET, "load", "holder", HOUR, claim.batch.id)
    assert claim is not None
    await store.acknowledge(claim)
    assert await store.acknowledged(ASSET, "load", claim.batch.id)
    watermark = await store.load(KEY)
    assert watermark is not None
    await store.confirm(KEY, [due[0].id])
    await store.commit(watermark, 2, [NewBatch(low=1, high=2, items=[0], count=1)], PollReport())


async def postgres_reads(url: str) -> int:
    """How many rows of the log and its claims the server has read so far, by whatever way."""
    engine = create_engine(store_url(url))
    async with engine.connect() as connection:
        await connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")
        rows = (
            await connection.exec_driver_sql(
                "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables "
                "WHERE relname IN ('asset_watermark_batches', 'asset_watermark_claims')"
            )
        ).scalar_one()
    await engine.dispose()
    return int(rows)


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "waiting"])
async def test_a_long_log_on_postgres_is_read_by_its_indexes(postgres: str, opened: OpenStore, finished: bool) -> None:
    """A hundred thousand batches, all finished or all waiting: every operation reads a few rows."""
    await long_log(opened(postgres), LENGTH, finished=finished)
    before = await settled(postgres)
    store = opened(postgres)
    for _ in range(ROUNDS):
        await a_day(store)
    await store.aclose()
    assert await settled(postgres) - before < ROUNDS * 500


async def settled(url: str) -> int:
    """The same, once the server has stopped adding what ended sessions did."""
    before = -1
    while (now := await postgres_reads(url)) != before:
        before = now
        await asyncio.sleep(0.3)
    return now


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "waiting"])
async def test_a_long_log_on_mysql_is_read_by_its_indexes(mysql: str, opened: OpenStore, finished: bool) -> None:
    """The same on MariaDB or MySQL: the server reads a few hundred rows for all of it."""
    await long_log(opened(mysql), LENGTH, finished=finished)
    store = opened(mysql)
    await a_day(store)
    before = await mysql_reads(store)
    for _ in range(ROUNDS):
        await a_day(store)
    assert await mysql_reads(store) - before < ROUNDS * 1000


async def mysql_reads(store: SqlStore) -> int:
    """How many rows the server has read so far, for anybody."""
    async with store.database.engine.connect() as connection:
        rows = await connection.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'Handler_read%%'")
        return sum(int(row[1]) for row in rows)


@contextmanager
def statements_of(store: SqlStore) -> Iterator[list[tuple[str, Any]]]:
    """Note every statement that a store sends through SQLAlchemy."""
    noted: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        noted.append((statement, parameters))

    engine = store.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    yield noted
    event.remove(engine, "before_cursor_execute", note)


async def test_due_and_claim_are_planned_on_indexes(postgres: str, opened: OpenStore) -> None:
    """PostgreSQL's own word for each statement of due and claim: an index, no scan of the log, no sort of it."""
    store = opened(postgres)
    await long_log(store, LENGTH)
    with statements_of(store) as noted:
        await store.due(KEY, HOUR)
        await store.claim(ASSET, "load", "holder", HOUR)
    reads = [each for each in noted if each[0].lstrip().startswith("SELECT") and "asset_watermark_batches" in each[0]]
    assert len(reads) >= 3
    async with store.database.engine.connect() as connection:
        for statement, parameters in reads:
            rows = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            plan = "\n".join(row[0] for row in rows)
            assert "Index" in plan
            assert "Seq Scan on asset_watermark_batches" not in plan
            assert "Seq Scan on asset_watermark_claims" not in plan
            assert "Sort" not in plan


async def test_due_and_claim_are_planned_on_indexes_of_sqlite(sqlite: str, opened: OpenStore) -> None:
    """SQLite says the same: every table is searched by an index, none is scanned, nothing is sorted."""
    store = opened(sqlite)
    watermark = await store.register(KEY, WATCHES)
    await store.subscribe(ASSET, "load", "earliest")
    await store.commit(watermark, 2, [NewBatch(low=1, high=2, items=[0], count=1)], PollReport())
    with statements_of(store) as noted:
        await store.due(KEY, HOUR)
        await store.claim(ASSET, "load", "holder", HOUR)
    reads = [each for each in noted if each[0].lstrip().startswith("SELECT") and "asset_watermark_batches" in each[0]]
    assert len(reads) >= 3
    async with store.database.engine.connect() as connection:
        for statement, parameters in reads:
            rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            steps = [row[3] for row in rows]
            assert any("SEARCH asset_watermark_batches USING" in step for step in steps)
            assert not [step for step in steps if step.startswith("SCAN asset_watermark") or "TEMP B-TREE" in step]
