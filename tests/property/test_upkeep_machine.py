"""The upkeep machine: the reference against what must hold, and the SQL store in step with it."""

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
from tests.property.upkeep_machine import UpkeepMachine


class OnSqlite(UpkeepMachine):
    """Each example in a new file."""

    template: Path
    looks_every = 4

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        self.folder = tempfile.TemporaryDirectory(prefix="upkeep-machine-")
        path = shutil.copy(self.template, f"{self.folder.name}/store.db")
        return MemoryStore(clock=self.clock), SqlStore(url=f"sqlite:///{path}", clock=self.clock)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class OnMemory(UpkeepMachine):
    """The reference against what must hold."""

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        return MemoryStore(clock=self.clock, identity="one"), MemoryStore(clock=self.clock, identity="two")


class OnObjects(UpkeepMachine):
    """In a bucket whose connections break, with small pages."""

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        return MemoryStore(clock=self.clock), broken_store(self.clock)


def test_on_memory() -> None:
    """Many histories on the reference."""
    run_state_machine_as_test(OnMemory, settings=settings(max_examples=100, stateful_step_count=50, deadline=None))


def test_on_sqlite(tmp_path: Path) -> None:
    """Fewer histories through SQL."""
    asyncio.run(migrated(f"sqlite:///{tmp_path}/template.db"))
    OnSqlite.template = tmp_path / "template.db"
    quick = settings(
        max_examples=8, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(OnSqlite, settings=quick)


def test_on_objects() -> None:
    """Histories in object storage: what answers were lost makes no difference."""
    quick = settings(
        max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(OnObjects, settings=quick)
