"""Two stores in step, of which one moves now and then: nobody can tell which."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from airflow_provider_incremental.core.copying import contents_of, copy
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import migrated
from tests.dict_bucket import DictBucket
from tests.property.upkeep_machine import KEY, UpkeepMachine


class Moving(UpkeepMachine):
    """The second store is copied to another one, and left; everything goes on there."""

    def another_store(self) -> WatermarkStore:
        """Make an empty store."""
        raise NotImplementedError

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        return MemoryStore(clock=self.clock), self.another_store()

    @rule(page_bytes=st.sampled_from([1, 700, 1_000_000]))
    def move(self, page_bytes: int) -> None:
        """Copy, compare, and go on with the copy alone."""
        here, there = self.stores[1], self.another_store()
        outcome = self.runner.run(copy(here, there, KEY, None, page_bytes=page_bytes))
        assert outcome.result == "copied"
        assert outcome.target == self.runner.run(contents_of(here, KEY))
        self.runner.run(here.aclose())
        self.stores = self.stores[0], there


class InMemory(Moving):
    """From one memory to the next."""

    def another_store(self) -> WatermarkStore:
        return MemoryStore(clock=self.clock)


class BackAndForth(Moving):
    """From SQLite to memory and back, each time to a new file."""

    template: Path
    looks_every = 4

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="copying-machine-")
        self.made = 0
        super().__init__()

    def another_store(self) -> WatermarkStore:
        self.made += 1
        if self.made % 2 == 0:
            return MemoryStore(clock=self.clock)
        path = shutil.copy(self.template, f"{self.folder.name}/store-{self.made}.db")
        return SqlStore(url=f"sqlite:///{path}", clock=self.clock)

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class ThroughABucket(InMemory):
    """From memory to object storage and back, each time to a new one; batches are moved out of documents at once."""

    def __init__(self) -> None:
        self.made = 0
        super().__init__()

    def another_store(self) -> WatermarkStore:
        self.made += 1
        if self.made % 2:
            return super().another_store()
        return ObjectStore(address=ObjectAddress(bucket="bucket"), client=DictBucket(), clock=self.clock, page=1)

    @initialize(count=st.integers(1, 4))
    def begin(self, count: int) -> None:
        """A watermark of which a batch is finished."""
        super().begin(count)
        self.subscribe("load", "earliest")
        self.claim("load", ordered=False, same=False)
        self.acknowledge(0)


def test_in_memory() -> None:
    """Many histories."""
    run_state_machine_as_test(InMemory, settings=settings(max_examples=60, stateful_step_count=40, deadline=None))


def test_between_sqlite_and_memory(tmp_path: Path) -> None:
    """Fewer histories through SQL."""
    asyncio.run(migrated(f"sqlite:///{tmp_path}/template.db"))
    BackAndForth.template = tmp_path / "template.db"
    quick = settings(
        max_examples=10, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(BackAndForth, settings=quick)


def test_between_object_storage_and_memory() -> None:
    """What object storage does not keep of finished work, nobody misses."""
    quick = settings(
        max_examples=30, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(ThroughABucket, settings=quick)
