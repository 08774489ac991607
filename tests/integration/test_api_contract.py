"""The API over PostgreSQL passes the suite that every store passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from harness.servers import DatabaseServer
from tests.databases import emptied, migrated
from tests.served import Served, serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def on_postgres(postgres_server: DatabaseServer) -> AsyncIterator[str]:
    """The address of a PostgreSQL database with the store's tables."""
    url = postgres_server.create_database()
    yield await migrated(url)
    postgres_server.drop_database(url)


class TestOverPostgres(WatermarkStoreContract):
    """A peer is a second client, as another process has it."""

    @pytest.fixture
    async def served(self, on_postgres: str, clock: FakeClock, tmp_path: Path) -> AsyncIterator[Served]:
        store = SqlStore(url=await emptied(on_postgres), clock=clock)
        async with serving(store, tmp_path) as served:
            yield served
        await store.aclose()

    @pytest.fixture
    async def store(self, served: Served) -> AsyncIterator[WatermarkStore]:
        store = api_store(served.url)
        yield store
        await store.aclose()

    @pytest.fixture
    async def peer(self, served: Served) -> AsyncIterator[WatermarkStore]:
        peer = api_store(served.url)
        yield peer
        await peer.aclose()
