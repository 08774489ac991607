"""The example of a store of one's own passes the published suite, is short, and says what is wrong with its service."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.stores.objects.own_storage import ConditionalStorage, store_on
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from example_stores import example_ledger_store
from example_stores.example_ledger_store import LedgerStorage, open_ledger

KEY = WatermarkKey("orders")
WATCHES = Watches("table orders", "id")


class TestLedger(WatermarkStoreContract):
    """A peer opens the same file."""

    @pytest.fixture
    def store(self, tmp_path: Path, clock: FakeClock) -> WatermarkStore:
        return open_ledger(f"ledger://{tmp_path}/ledger.db", clock)

    @pytest.fixture
    def peer(self, tmp_path: Path, clock: FakeClock) -> WatermarkStore:
        return open_ledger(f"ledger://{tmp_path}/ledger.db", clock)


def test_the_example_is_short() -> None:
    """Whoever copies it reads fewer than 100 lines."""
    assert len(Path(example_ledger_store.__file__).read_text().splitlines()) < 100


class Careless(LedgerStorage):
    """Ignores the condition."""

    async def write(self, name: str, body: bytes, tag: str | None) -> str | None:
        """Write whatever is there."""
        await self.delete([name])
        return await super().write(name, body, None)


async def test_a_service_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    """Before anything is kept in it."""
    store = store_on(Careless(f"{tmp_path}/ledger.db"), place="the ledger")
    with pytest.raises(StoreUnavailableError, match=r"the ledger.*conditional writes"):
        await store.register(KEY, WATCHES)


class Broken(ConditionalStorage):
    """Raises the same error whatever it is asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def read(self, name: str) -> tuple[bytes, str] | None:
        raise self.error

    async def write(self, name: str, body: bytes, tag: str | None) -> str | None:
        raise self.error

    async def names(self, prefix: str) -> Sequence[tuple[str, str, dt.datetime]]:
        raise self.error

    async def delete(self, names: Sequence[str]) -> None:
        raise self.error


@pytest.mark.parametrize("error", [ConnectionError("no route"), PermissionError("not yours"), KeyError("no table")])
async def test_what_a_service_says_is_told_with_its_place(error: Exception) -> None:
    """And nothing of connections of Airflow, which it does not have."""
    store = store_on(Broken(error), place="the ledger", timeout=0.2)
    with pytest.raises(StoreUnavailableError, match=f"the ledger.*{error.args[0]}") as told:
        await store.load(KEY)
    assert "connection ''" not in str(told.value)
    assert "endpoint_url" not in str(told.value)
