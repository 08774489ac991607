"""Who knows the callers needs a database of its own, as Airflow does: while it is away, so is the API."""

from __future__ import annotations

import httpx
import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.web.api.access import Caller
from airflow_provider_incremental.web.api.app import create_app
from tests.served import listening

AWAY = [
    sa.exc.OperationalError("SELECT hush", {}, Exception("could not connect to db.internal")),
    sa.exc.InterfaceError("SELECT hush", {}, Exception("connection is closed")),
    sa.exc.DBAPIError("SELECT hush", {}, Exception("gone"), connection_invalidated=True),
    sa.exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached"),
]


class Auth:
    """Knows everybody, unless something happens before."""

    def __init__(self):
        self.happens = []

    @property
    def identify(self):
        def known() -> Caller:
            if self.happens:
                raise self.happens.pop(0)
            return Caller(name="everybody", allows=lambda _: True)

        return known


@pytest.mark.parametrize("error", AWAY, ids=lambda each: type(each).__name__)
async def test_an_outage_of_its_database_is_waited_for(error):
    """503 with Retry-After, and nothing of where that database is; a client tries again."""
    auth = Auth()
    async with listening(create_app(MemoryStore(), auth)) as port, httpx.AsyncClient(timeout=60) as client:
        auth.happens = [error]
        answer = await client.post(f"http://127.0.0.1:{port}/v1/load", json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
        assert answer.headers["retry-after"] == "1"
        assert "hush" not in answer.text
        assert "db.internal" not in answer.text
        auth.happens = [error]
        store = api_store(f"api+http://:t@127.0.0.1:{port}?timeout=20")
        assert await store.register(WatermarkKey("orders"), Watches("table orders", "id"))
        await store.aclose()


async def test_another_error_of_its_database_is_the_servers():
    """A statement that cannot work is not waited for."""
    auth = Auth()
    async with listening(create_app(MemoryStore(), auth)) as port, httpx.AsyncClient(timeout=60) as client:
        auth.happens = [sa.exc.ProgrammingError("SELECT hush", {}, Exception("no such column"))]
        answer = await client.post(f"http://127.0.0.1:{port}/v1/load", json={})
        assert (answer.status_code, answer.json()["code"], "hush" in answer.text) == (500, "internal", False)
