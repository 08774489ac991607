"""A store with some watermarks, and the command line run on it in this process."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.batch import Batch, NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.wiring.sync import store_session

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
CURSOR = (NOON, 42)
WATCHES = Watches(source="postgresql://shop/public.orders", cursor="updated_at timestamptz, id bigint")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Store:
    """A store in a file, looked into by its own operations."""

    url: str

    def __call__(self, operation: Callable) -> Any:
        with store_session(self.url) as session:
            return session.run(operation(session.store))

    def load(self, *name: str) -> Watermark | None:
        return self(lambda store: store.load(WatermarkKey(*name)))

    def add(self, *name: str, cursor: Any = None, batches: int = 1) -> Watermark:
        """Register a watermark and commit batches up to a cursor."""

        async def work(store) -> Watermark:
            watermark = await store.register(WatermarkKey(*name), WATCHES)
            for _ in range(batches):
                batch = NewBatch(low=None, high=cursor, items=["secret item"], count=1)
                watermark, _ = await store.commit(watermark, cursor, [batch], PollReport())
            return watermark

        return self(work)

    def report(self, *name: str, **report: Any) -> None:
        self(lambda store: store.report(WatermarkKey(*name), PollReport(**report)))

    def report_long_ago(self, asset_name: str, **report: Any) -> None:
        """Report what a poll five minutes ago would have reported."""

        async def work(_) -> None:
            clock = FakeClock(start=dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5))
            store = SqlStore(url=self.url, clock=clock)
            await store.report(WatermarkKey(asset_name), PollReport(**report))
            await store.aclose()

        self(work)

    def consume(self, asset_name: str, consumer: str, batches: int, *, dead: bool = False) -> None:
        """Acknowledge the oldest batches that wait for a consumer, or fail at them for good."""
        selector = Selector(asset_name)

        async def work(store) -> None:
            await store.subscribe(selector, consumer, "earliest")
            for _ in range(batches):
                claim = await store.claim(selector, consumer, uuid.uuid4().hex, 60)
                if dead:
                    await store.release(claim, "division by zero", dead=True)
                else:
                    await store.acknowledge(claim)

        self(work)

    def pending(self, asset_name: str, consumer: str) -> list[int]:
        """Return the numbers of the batches of an asset's one watermark that wait for a consumer."""
        waiting = self(lambda store: store.pending(Selector(asset_name, "default", "default"), consumer))
        return [batch.seq for batch in waiting]

    def history(self, *name: str) -> list[Batch]:
        return self(lambda store: store.history(WatermarkKey(*name)))


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a store without watermarks."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    upgrade_embedded(path)
    return path.read_bytes()


@pytest.fixture
def store(empty_store: bytes, tmp_path: Path) -> Store:
    """A store without watermarks."""
    path = tmp_path / "store.db"
    path.write_bytes(empty_store)
    return Store(f"sqlite:///{path}")


@pytest.fixture
def run(store: Store, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command on the store."""

    def command(*arguments: str, url: str | None = store.url) -> Result:
        capsys.readouterr()
        try:
            code = main([*arguments, *([] if url is None else ["--store", url])])
        except SystemExit as leaving:
            code = leaving.code
        caught = capsys.readouterr()
        return Result(code, caught.out, caught.err)

    return command
