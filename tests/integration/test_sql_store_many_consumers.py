"""What is due costs the same for one consumer and for a thousand: a few statements, a few rows, no long pause."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from airflow_provider_incremental.stores.sql.statements import append
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.stores.sql.tables import batches, claims, consumers, watermarks
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_store_stage import ASSET, KEY, WATCHES
from tests.integration.test_sql_store_plans import HOUR, mysql_reads, settled, statements_of

OpenStore = Callable[..., SqlStore]
CONSUMERS = 1000
LENGTH = 20_000
MOST = 1000


async def backlog(store: SqlStore, clock: FakeClock, *, length: int, count: int) -> None:
    """A log that was announced long ago, and consumers that have not finished a single batch of it."""
    await store.register(KEY, WATCHES)
    await store.subscribe(ASSET, "load 0", "earliest")
    long_ago = clock.now()
    row = {"watermark_id": KEY.id, "kind": "added", "low": "1", "high": "2", "items": "[]", "items_bytes": 2}
    engine = store.database.engine
    times = {"committed_at": long_ago, "announced_at": long_ago, "count": 1}
    times["marks"] = "" if engine.dialect.name == "mysql" else b""
    log = [row | times | {"seq": seq, "id": f"{seq:032}"} for seq in range(1, length + 1)]
    known = {"watermark_id": KEY.id, "start_seq": 0, "done_seq": 0, "first_seen_at": long_ago, "last_seen_at": long_ago}
    insert = append(store.database.dialect)
    async with engine.begin() as connection:
        for at in range(0, length, 1000):
            await connection.execute(insert, log[at : at + 1000])
        await connection.execute(sa.insert(consumers), [known | {"consumer": f"load {n}"} for n in range(1, count)])
        await connection.execute(sa.update(watermarks).values(last_seq=length))
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        for table in ("batches", "consumers"):
            word = "TABLE " if engine.dialect.name == "mysql" else ""
            await connection.exec_driver_sql(f"ANALYZE {word}asset_watermark_{table}")
    clock.advance(2 * HOUR)


async def test_what_is_due_for_many_consumers_takes_few_statements(database: str, opened: OpenStore) -> None:
    """One for hundreds of consumers, whose answer is as long as what is asked for; the oldest batches come first."""
    clock = FakeClock()
    store = opened(database, clock=clock)
    await backlog(store, clock, length=5000, count=CONSUMERS)
    with statements_of(store) as noted:
        due = await store.due(KEY, HOUR)
    assert [batch.seq for batch in due] == list(range(1, MOST + 1))
    reads = [each for each in noted if "asset_watermark_" in each[0]]
    assert len(reads) <= 2 + CONSUMERS / 100 + CONSUMERS / 500


async def test_a_batch_is_due_for_the_one_consumer_that_has_not_finished_it(database: str, opened: OpenStore) -> None:
    """Among a thousand that have, have it in hand, or have to wait, the one is found."""
    clock = FakeClock()
    store = opened(database, clock=clock)
    await backlog(store, clock, length=3, count=CONSUMERS)
    now = clock.now()
    later = now + (now - now.replace(hour=0)) + (now - now.replace(year=now.year - 1))
    claim = {"watermark_id": KEY.id, "seq": 2, "holder": "somebody", "attempt": 1, "claimed_at": now}
    new = [
        claim | {"consumer": f"load {n}", "state": ("acknowledged", "dead", "released")[n % 3], "lease_until": later}
        for n in range(CONSUMERS - 1)
    ]
    async with store.database.engine.begin() as connection:
        await connection.execute(sa.update(consumers).values(done_seq=1))
        await connection.execute(sa.update(batches).where(batches.c.seq == 3).values(kind="baseline"))
        await connection.execute(sa.insert(claims), new)
    assert [batch.seq for batch in await store.due(KEY, HOUR)] == [2]
    last = claim | {"consumer": f"load {CONSUMERS - 1}", "state": "claimed", "lease_until": later}
    async with store.database.engine.begin() as connection:
        await connection.execute(sa.insert(claims), [last])
    assert await store.due(KEY, HOUR) == []


async def test_postgres_reads_as_many_rows_as_it_returns(postgres: str, opened: OpenStore) -> None:
    """However long the log is behind them."""
    clock = FakeClock()
    store = opened(postgres, clock=clock)
    await backlog(store, clock, length=LENGTH, count=CONSUMERS)
    await store.due(KEY, HOUR)
    await store.aclose()
    before = await settled(postgres)
    store = opened(postgres, clock=clock)
    for _ in range(8):  # also with its generic plan
        await store.due(KEY, HOUR)
    await store.aclose()
    assert await settled(postgres) - before < 8 * 5 * MOST


async def test_mysql_reads_a_few_times_as_many_rows_as_it_returns(mysql: str, opened: OpenStore) -> None:
    """The same there, where what it looks up for each batch counts as well."""
    clock = FakeClock()
    store = opened(mysql, clock=clock)
    await backlog(store, clock, length=LENGTH, count=CONSUMERS)
    before = await mysql_reads(store)
    await store.due(KEY, HOUR)
    assert await mysql_reads(store) - before < 20 * MOST
