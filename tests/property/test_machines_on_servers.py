"""Both machines on real servers: PostgreSQL, MariaDB, the API over PostgreSQL, and object storage.

``INCREMENTAL_HISTORIES=10`` tries ten times as many histories of each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import emptied, migrated
from tests.integration.object_stage import stage_on
from tests.property.delivery_machine import DeliveryMachine
from tests.property.upkeep_machine import UpkeepMachine
from tests.served import serving

TIMES = int(os.environ.get("INCREMENTAL_HISTORIES", "1"))

Opens = Callable[[AsyncExitStack, Clock], Awaitable[WatermarkStore]]


def on_database(url: str) -> Opens:
    """Each history in the same tables, emptied."""
    asyncio.run(migrated(url))

    async def opens(_: AsyncExitStack, clock: Clock) -> WatermarkStore:
        return SqlStore(url=await emptied(url), clock=clock)

    return opens


def on_postgresql(request: pytest.FixtureRequest) -> Opens:
    """With the commit that is one statement."""
    return on_database(request.getfixturevalue("postgres_database"))


def on_mariadb(request: pytest.FixtureRequest) -> Opens:
    """With locks of rows."""
    return on_database(request.getfixturevalue("mysql_database"))


def over_the_api(request: pytest.FixtureRequest) -> Opens:
    """A client, who knows no database, and a server in the same event loop."""
    opens_database, folder = on_postgresql(request), request.getfixturevalue("tmp_path")

    async def opens(stage: AsyncExitStack, clock: Clock) -> WatermarkStore:
        store = await opens_database(stage, clock)
        stage.push_async_callback(store.aclose)
        return api_store((await stage.enter_async_context(serving(store, Path(folder), clock=clock))).url)

    return opens


def on_objects(request: pytest.FixtureRequest) -> Opens:
    """Each history below a prefix of its own."""
    server = request.getfixturevalue("s3_server")

    async def opens(stage: AsyncExitStack, clock: Clock) -> WatermarkStore:
        return (await stage.enter_async_context(stage_on(server))).store(clock=clock, page=1)

    return opens


class Delivery(DeliveryMachine):
    """Triggers and consumers on one store."""

    opens: ClassVar[Opens]

    def open_store(self) -> WatermarkStore:
        return self.run(type(self).opens(self.stage, self.clock))


class Upkeep(UpkeepMachine):
    """Consumers, replays and retention on one store, in step with the reference."""

    opens: ClassVar[Opens]
    looks_every = 4

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        return MemoryStore(clock=self.clock), self.runner.run(type(self).opens(self.stage, self.clock))


@pytest.mark.timeout(300 * TIMES)
@pytest.mark.parametrize("machine", [Delivery, Upkeep])
@pytest.mark.parametrize(
    ("server", "histories", "steps"),
    [(on_postgresql, 15, 40), (on_mariadb, 10, 40), (over_the_api, 10, 40), (on_objects, 4, 25)],
)
def test_nothing_is_lost_or_repeated(
    request: pytest.FixtureRequest, server: Any, histories: int, steps: int, machine: Any
) -> None:
    """Histories of crashes, failures and races give what they give on the reference."""
    on_server = type("OnServer", (machine,), {"opens": staticmethod(server(request))})
    quick = settings(
        max_examples=histories * TIMES,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(on_server, settings=quick)
