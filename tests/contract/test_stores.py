"""Every store passes the published suite."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract


class TestMemoryStore(WatermarkStoreContract):
    """The reference."""

    @pytest.fixture
    def store(self, clock: FakeClock) -> WatermarkStore:
        return MemoryStore(clock=clock)
