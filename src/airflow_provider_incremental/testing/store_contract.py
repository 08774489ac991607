"""The behaviour that every store must show: one test for each sentence of :class:`core.store.WatermarkStore`.

A backend subclasses :class:`WatermarkStoreContract` in a test module, gives it a ``store``, and passes or does not::

    class TestMyStore(WatermarkStoreContract):
        @pytest.fixture
        async def store(self, clock: FakeClock) -> AsyncIterator[WatermarkStore]:
            store = await MyStore.open(clock=clock)
            yield store
            await store.aclose()

The suite needs pytest and pytest-asyncio. It moves time by the clock that the store was given, and never waits.
"""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._announcements import AnnouncementTests
from airflow_provider_incremental.testing._batches import BatchTests
from airflow_provider_incremental.testing._clocks import ClockTests
from airflow_provider_incremental.testing._commits import CommitTests
from airflow_provider_incremental.testing._consumers import ConsumerTests
from airflow_provider_incremental.testing._failures import FailureTests
from airflow_provider_incremental.testing._leases import LeaseTests
from airflow_provider_incremental.testing._memories import MemoryTests
from airflow_provider_incremental.testing._rewinds import RewindTests
from airflow_provider_incremental.testing._snapshots import SnapshotTests
from airflow_provider_incremental.testing._upkeep import UpkeepTests
from airflow_provider_incremental.testing._values import ValueTests
from airflow_provider_incremental.testing._watermarks import WatermarkTests
from airflow_provider_incremental.testing.fakes import FakeClock

__all__ = ["WatermarkStoreContract"]


@pytest.mark.asyncio
class WatermarkStoreContract(
    WatermarkTests,
    RewindTests,
    CommitTests,
    MemoryTests,
    ValueTests,
    BatchTests,
    AnnouncementTests,
    ConsumerTests,
    LeaseTests,
    ClockTests,
    FailureTests,
    UpkeepTests,
    SnapshotTests,
):
    """Subclass it with a fixture ``store``: an empty store that takes its time from the fixture ``clock``."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        """The time that the store must go by."""
        return FakeClock()

    @pytest.fixture
    def store(self, clock: FakeClock) -> WatermarkStore:
        """An empty store; every backend gives its own."""
        msg = f"{type(self).__name__} must define a fixture `store` that returns an empty store with clock={clock!r}"
        raise NotImplementedError(msg)

    @pytest.fixture
    def peer(self, store: WatermarkStore) -> WatermarkStore:
        """The same store as another process opens it; a backend that several processes share gives a second one."""
        return store
