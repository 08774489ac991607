"""A session that takes no changes is given up: what it is was decided when it began, and may be over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.integration.sql_store_stage import ASSET, KEY, WATCHES, commit, everything

OpenStore = Callable[..., SqlStore]
Work = Callable[[SqlStore], Awaitable[object]]


async def execute(url: str, statement: str) -> None:
    """Do something behind the store's back."""
    engine = create_engine(store_url(url))
    async with engine.begin() as connection:
        await connection.exec_driver_sql(statement)
    await engine.dispose()


@asynccontextmanager
async def read_only(url: str) -> AsyncIterator[None]:
    """Let every session that begins inside take no changes, as on a standby, and none that begins afterwards."""
    name = sa.engine.make_url(url).database
    await execute(url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    yield
    writing = f"{url}{'&' if '?' in url else '?'}options=-cdefault_transaction_read_only%3Doff"
    await execute(writing, f'ALTER DATABASE "{name}" SET default_transaction_read_only = off')


async def commits(store: SqlStore) -> object:
    """The statement that goes straight to the driver, on the connection that is kept for it."""
    watermark = await store.load(KEY)
    assert watermark is not None
    return await commit(store, watermark)


async def registers(store: SqlStore) -> object:
    """A transaction."""
    return await store.register(KEY, WATCHES)


async def confirms(store: SqlStore) -> object:
    """A single statement."""
    return await store.confirm(KEY, ["0" * 32])


async def subscribes(store: SqlStore) -> object:
    """A transaction after a read."""
    return await store.subscribe(ASSET, "load", "earliest")


@pytest.mark.parametrize("work", [commits, registers, confirms, subscribes])
async def test_a_session_of_a_read_only_time_is_not_used_once_that_is_over(
    postgres: str, opened: OpenStore, work: Work
) -> None:
    """``ALTER DATABASE ... SET default_transaction_read_only`` holds for the sessions that begin under it."""
    await everything(opened(postgres))
    async with read_only(postgres):
        store = opened(postgres)
        with pytest.raises(StoreUnavailableError, match="takes no changes"):
            await work(store)
        assert store.database.lent == 0
    await work(store)
    await everything(store)


@pytest.mark.parametrize("work", [commits, registers, confirms, subscribes])
async def test_a_failover_is_not_even_noticed(postgres: str, opened: OpenStore, work: Work) -> None:
    """Sessions of a server that became a standby are replaced within the operation that finds it out."""
    await everything(opened(postgres))
    async with read_only(postgres):
        store = opened(postgres)
        await store.list_watermarks()
        assert store.database.engine.pool.checkedin() == 1
    await work(store)


async def test_mysql_that_is_read_only_is_asked_again_by_another_session(mysql: str, opened: OpenStore) -> None:
    """There, a transaction or the whole server takes no changes: the session in hand is replaced as well."""
    store = opened(mysql)
    await everything(store)
    async with store.database.engine.connect() as connection:
        await connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
        await connection.commit()
    for _ in range(3):
        await commits(store)
