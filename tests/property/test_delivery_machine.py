"""The delivery machine on every kind of store: hypothesis looks for a history that loses or repeats something."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import migrated
from tests.property.broken_bucket import broken_store
from tests.property.delivery_machine import DeliveryMachine


class OnMemory(DeliveryMachine):
    """The reference."""

    def open_store(self) -> WatermarkStore:
        return MemoryStore(clock=self.clock)


class OnSqlite(DeliveryMachine):
    """The same through SQL, each example in a new file."""

    template: Path

    def open_store(self) -> WatermarkStore:
        self.folder = tempfile.TemporaryDirectory(prefix="delivery-machine-")
        path = shutil.copy(self.template, f"{self.folder.name}/store.db")
        return SqlStore(url=f"sqlite:///{path}", clock=self.clock)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class OnObjects(DeliveryMachine):
    """The same in a bucket whose connections break, before or after a request had its effect, and with small pages."""

    def open_store(self) -> WatermarkStore:
        return broken_store(self.clock)


def test_on_memory() -> None:
    """Many histories on the reference."""
    run_state_machine_as_test(OnMemory, settings=settings(max_examples=250, stateful_step_count=60, deadline=None))


def test_on_sqlite(tmp_path: Path) -> None:
    """Fewer histories through SQL."""
    asyncio.run(migrated(f"sqlite:///{tmp_path}/template.db"))
    OnSqlite.template = tmp_path / "template.db"
    quick = settings(
        max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(OnSqlite, settings=quick)


def test_on_objects() -> None:
    """Histories in object storage: what answers were lost makes no difference."""
    quick = settings(
        max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(OnObjects, settings=quick)
