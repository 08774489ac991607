"""A store in memory that is served, and requests as a stranger makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.web.api.limits import Limits
from tests.served import Served, serving

KEY = WatermarkKey("orders")
WATCHES = Watches("table orders", "id")


class Stranger:
    """Sends whatever it likes."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def post(self, route: str, body: object, *, token: str | None = None, key: str | None = "k", **headers: str):
        """Send JSON to a route, and return the response."""
        sent = headers | ({"Authorization": f"Bearer {token}"} if token else {})
        sent |= {"Idempotency-Key": key} if key else {}
        return await self.client.post(f"/v1/{route}", json=body, headers=sent)


@pytest.fixture
def clock() -> FakeClock:
    """The time of the server."""
    return FakeClock()


@pytest.fixture
async def store(clock: FakeClock) -> MemoryStore:
    """The store that is served, with one watermark."""
    store = MemoryStore(clock=clock)
    await store.register(KEY, WATCHES)
    return store


@pytest.fixture
def limits() -> Limits:
    """Small enough to be met."""
    return Limits(request_bytes=20_000, operations=5, requests_per_second=50)


@pytest.fixture
async def served(store: MemoryStore, clock: FakeClock, limits: Limits, tmp_path: Path) -> AsyncIterator[Served]:
    """The server."""
    async with serving(store, tmp_path, limits=limits, clock=clock) as served:
        yield served


@pytest.fixture
async def stranger(served: Served) -> AsyncIterator[Stranger]:
    """A client that has nothing of ours."""
    async with httpx.AsyncClient(base_url=served.base, timeout=60) as client:
        yield Stranger(client)
