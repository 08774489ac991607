"""Connections of the store: given back whatever happens, replaced when the server drops them, waited for in vain."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.watermark import PollReport
from airflow_provider_incremental.stores.sql import database as database_module
from airflow_provider_incremental.stores.sql import engine as engine_module
from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.integration.sql_store_stage import ASSET, KEY, WATCHES, commit, until

OpenStore = Callable[..., SqlStore]


async def drop_all(url: str) -> None:
    """Let the server drop every connection to a database but our own."""
    engine = create_engine(store_url(url))
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            others = "pid <> pg_backend_pid() AND datname = current_database()"
            await connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
            await until(lambda: _gone(connection, f"SELECT 1 FROM pg_stat_activity WHERE {others}"), "backends to end")
        else:
            others = "id <> connection_id() AND db = database()"
            found = await connection.exec_driver_sql(f"SELECT id FROM information_schema.processlist WHERE {others}")
            for row in found.all():
                await connection.exec_driver_sql(f"KILL {row.id}")
            question = f"SELECT 1 FROM information_schema.processlist WHERE {others}"
            await until(lambda: _gone(connection, question), "threads to end")
    await engine.dispose()


async def _gone(connection: AsyncConnection, question: str) -> bool:
    gone = (await connection.exec_driver_sql(question)).first() is None
    await connection.rollback()  # or the next answer would be the same
    return gone


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_dropped_connections_are_replaced_unnoticed(database: str, opened: OpenStore) -> None:
    """The server drops every pooled connection before each kind of operation: it works at the first call, once."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    await store.subscribe(ASSET, "load", "earliest")

    async def after_a_drop(work: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.gather(*(store.load(KEY) for _ in range(8)))
        assert store.database.engine.pool.checkedin() == 5
        await drop_all(database)
        return await work()

    for number in range(1, 4):
        watermark = await after_a_drop(lambda before=watermark: commit(store, before))
        assert watermark.version == number
        assert len(await after_a_drop(lambda: store.due(KEY, 60))) == number
        await after_a_drop(lambda: store.report(KEY, PollReport(conflicts=1)))
        held = await after_a_drop(lambda: store.claim(ASSET, "load", "holder", 3600))
        assert held is not None
        assert held.attempt == 1
        held = await after_a_drop(lambda mine=held: store.renew(mine, 3600))
        await after_a_drop(lambda mine=held: store.acknowledge(mine))
        await after_a_drop(lambda: store.confirm(KEY, []))
    assert await store.pending(ASSET, "load") == []
    loaded = await store.load(KEY)
    assert loaded is not None
    assert loaded.status.conflicts == 3


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_a_deadlock_is_tried_again(database: str, opened: OpenStore) -> None:
    """The database picks the store's transaction to end a deadlock: the store repeats it, and nobody notices."""
    store = opened(database)
    await commit(store, await store.register(KEY, WATCHES))
    await store.subscribe(ASSET, "load", "earliest")
    claim = await store.claim(ASSET, "load", "holder", 3600)
    assert claim is not None
    rival = create_engine(store_url(database))
    async with rival.connect() as other:
        await make_heavy(other)
        await other.exec_driver_sql("SELECT * FROM asset_watermark_claims FOR UPDATE")
        acknowledged = asyncio.ensure_future(store.acknowledge(claim))
        async with rival.connect() as watcher:
            await until(lambda: is_waiting(watcher), "the store to wait for the claim's row")
        # The store holds the consumer's row and waits for the claim's: now it is a circle.
        await other.exec_driver_sql("UPDATE asset_watermark_consumers SET last_seen_at = first_seen_at")
        await other.rollback()
    await acknowledged
    assert await store.acknowledged(ASSET, "load", claim.batch.id)
    await rival.dispose()


async def make_heavy(connection: AsyncConnection) -> None:
    """Let the database prefer the other transaction as the victim."""
    if connection.dialect.name == "postgresql":
        await connection.exec_driver_sql("SET LOCAL deadlock_timeout = '20s'")
        return
    for number in range(50):
        await connection.exec_driver_sql(
            "INSERT INTO asset_watermark_store (id, identity, created_at) VALUES (%s, 'x', now())", (100 + number,)
        )


async def is_waiting(connection: AsyncConnection) -> bool:
    """Whether somebody waits for a row."""
    if connection.dialect.name == "postgresql":
        question = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    else:
        question = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    found = (await connection.exec_driver_sql(question)).first() is not None
    await connection.rollback()
    return found


@pytest.mark.parametrize("database", ["postgresql", "mysql"], indirect=True)
async def test_a_statement_that_does_not_end_is_given_up(database: str, opened: OpenStore) -> None:
    """Somebody locks the watermark's row for good: the store says so in time, changes nothing, and works afterwards."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    rival = create_engine(store_url(database))
    async with rival.connect() as other:
        await other.exec_driver_sql("SELECT * FROM asset_watermarks FOR UPDATE")
        store.database._timeout = 0.3
        with pytest.raises(StoreUnavailableError, match="in time"):
            await commit(store, watermark)
        await until(lambda: store.database.lent == 0, "the connection to come back")
        store.database._timeout = 30
    await until(lambda: _nobody_waits(rival), "the database to end what was given up")
    assert await store.load(KEY) == watermark
    await commit(store, watermark)
    await rival.dispose()


async def _nobody_waits(engine: Any) -> bool:
    async with engine.connect() as connection:
        return not await is_waiting(connection)


async def test_a_pool_without_a_free_connection(
    postgres: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all connections are taken for too long, the store says so, and recovers when one comes back."""
    monkeypatch.setattr(engine_module, "_POOL_WAIT", 0.1)
    store = opened(postgres)
    taken = [await store.database.engine.connect() for _ in range(15)]
    with pytest.raises(StoreUnavailableError, match="QueuePool"):
        await store.load(KEY)
    for connection in taken:
        await connection.close()
    assert await store.load(KEY) is None


async def test_a_writer_waits_for_sqlites_one_lock(sqlite: str, opened: OpenStore) -> None:
    """Another process holds the write lock: reads go on, and writes wait until it lets go."""
    store = opened(sqlite)
    watermark = await store.register(KEY, WATCHES)
    other = sqlite3.connect(sqlite.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.ensure_future(commit(store, watermark))
    assert await store.load(KEY) == watermark
    assert not writing.done()
    other.execute("COMMIT")
    other.close()
    assert (await writing).version == 1


async def test_a_lock_of_sqlite_that_nobody_lets_go(
    sqlite: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write lock that is never released is an unavailable store, not an endless wait; nothing was written."""
    monkeypatch.setattr(engine_module, "BUSY_TIMEOUT", 0.02)
    store = opened(sqlite)
    watermark = await store.register(KEY, WATCHES)
    other = sqlite3.connect(sqlite.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="too busy"):
        await commit(store, watermark)
    other.execute("COMMIT")
    other.close()
    assert (await commit(store, watermark)).version == 1


async def test_attempts_are_bounded(sqlite: str, opened: OpenStore) -> None:
    """An operation that fails for ever is tried a handful of times."""
    store = opened(sqlite)
    tried = 0

    async def busy(_: AsyncConnection) -> None:
        nonlocal tried
        tried += 1
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    with pytest.raises(StoreUnavailableError, match="too busy"):
        await store.database.write(busy, repeatable=False)
    assert tried == database_module._ATTEMPTS
