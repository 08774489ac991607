"""The delivery machine on real servers: PostgreSQL, MariaDB, the API over PostgreSQL, and object storage."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.sql.store import SqlStore
from harness.servers import S3Server
from tests.databases import emptied, migrated
from tests.integration.object_stage import stage_on
from tests.property.delivery_machine import DeliveryMachine
from tests.served import serving


class OnDatabase(DeliveryMachine):
    """Each example in the same tables, emptied."""

    url: ClassVar[str]

    def open_store(self) -> WatermarkStore:
        return SqlStore(url=self.run(emptied(self.url)), clock=self.clock)


class OverApi(OnDatabase):
    """A client, and a server in the same event loop."""

    folder: ClassVar[Path]

    def open_store(self) -> WatermarkStore:
        store = super().open_store()
        self.stage.push_async_callback(store.aclose)
        return api_store(self.run(self.stage.enter_async_context(serving(store, self.folder))).url)


class OnObjects(DeliveryMachine):
    """Each example below a prefix of its own."""

    server: ClassVar[S3Server]

    def open_store(self) -> WatermarkStore:
        stage = self.run(self.stage.enter_async_context(stage_on(self.server)))
        return stage.store(clock=self.clock)


def histories(machine: type[DeliveryMachine], count: int, steps: int = 40) -> None:
    """Try so many histories."""
    quick = settings(
        max_examples=count, stateful_step_count=steps, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(machine, settings=quick)


def test_on_postgresql(postgres_database: str) -> None:
    """Nothing is lost or repeated, with the commit that is one statement."""
    OnDatabase.url = asyncio.run(migrated(postgres_database))
    histories(OnDatabase, 15)


def test_on_mariadb(mysql_database: str) -> None:
    """Nothing is lost or repeated."""
    OnDatabase.url = asyncio.run(migrated(mysql_database))
    histories(OnDatabase, 10)


def test_over_the_api(postgres_database: str, tmp_path: Path) -> None:
    """Nothing is lost or repeated by who knows no database."""
    OverApi.url, OverApi.folder = asyncio.run(migrated(postgres_database)), tmp_path
    histories(OverApi, 10)


def test_in_object_storage(s3_server: S3Server) -> None:
    """Nothing is lost or repeated on a real server of S3's interface."""
    OnObjects.server = s3_server
    histories(OnObjects, 4, steps=25)
