"""The SQL store passes the published suite on a real PostgreSQL, a real MariaDB and SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from harness.servers import DatabaseServer
from tests.databases import emptied, migrated


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

    @pytest.fixture(scope="class")
    def url(self, postgres_server: DatabaseServer) -> str:
        return asyncio.run(migrated(postgres_server.create_database()))


class TestOnMariaDB(SqlStoreContract):
    """Collations that take names for equal, and rows that count as changed when they were found."""

    @pytest.fixture(scope="class")
    def url(self, mariadb_server: DatabaseServer) -> str:
        return asyncio.run(migrated(mariadb_server.create_database()))


class TestOnSqlite(SqlStoreContract):
    """One writer at a time."""

    @pytest.fixture(scope="class")
    def url(self, tmp_path_factory: pytest.TempPathFactory) -> str:
        folder: Path = tmp_path_factory.mktemp("contract")
        return asyncio.run(migrated(f"sqlite:///{folder}/store.db"))
