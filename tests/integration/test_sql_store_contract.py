"""The SQL store passes the published suite on a real PostgreSQL, a real MariaDB and SQLite.

Each kind has one database, whose tables are emptied before each test: making them takes longer than most tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from harness.servers import DatabaseServer
from tests.databases import emptied, migrated


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_postgres(postgres_server: DatabaseServer) -> AsyncIterator[str]:
    """The address of a PostgreSQL database with the store's tables."""
    url = postgres_server.create_database()
    yield await migrated(url)
    postgres_server.drop_database(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_mariadb(mariadb_server: DatabaseServer) -> AsyncIterator[str]:
    """The address of a MariaDB or MySQL database with the store's tables."""
    url = mariadb_server.create_database()
    yield await migrated(url)
    mariadb_server.drop_database(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a SQLite file with the store's tables."""
    return await migrated(f"sqlite:///{tmp_path_factory.mktemp('contract')}/store.db")


class SqlStoreContract(WatermarkStoreContract):
    """What the three databases have in common: a peer is a second engine, as another process has it."""

    @pytest.fixture
    async def store(self, url: str, clock: FakeClock) -> AsyncIterator[WatermarkStore]:
        store = SqlStore(url=await emptied(url), clock=clock)
        yield store
        await store.aclose()

    @pytest.fixture
    async def peer(self, url: str, store: WatermarkStore, clock: FakeClock) -> AsyncIterator[WatermarkStore]:
        peer = SqlStore(url=url, clock=clock)
        yield peer
        await peer.aclose()


class TestOnPostgres(SqlStoreContract):
    """One statement a commit, through asyncpg."""

    @pytest.fixture
    def url(self, on_postgres: str) -> str:
        return on_postgres


class TestOnMariaDB(SqlStoreContract):
    """Collations that take names for equal, and rows that count as changed when they were found."""

    @pytest.fixture
    def url(self, on_mariadb: str) -> str:
        return on_mariadb


class TestOnSqlite(SqlStoreContract):
    """One writer at a time."""

    @pytest.fixture
    def url(self, on_sqlite: str) -> str:
        return on_sqlite
