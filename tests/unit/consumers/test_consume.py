"""The loop of a consumer: the end of its body acknowledges, anything else gives the batch back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.context import Context

from airflow_provider_incremental import AssetWatermark, PendingBatch, consume, pending_batches
from airflow_provider_incremental.consumers import _run
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import (
    BatchHeldError,
    ConfigurationError,
    LeaseLostError,
    WrongStoreError,
)
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.wiring.airflow import AirflowSkipException
from airflow_provider_incremental.wiring.stores import open_store

ORDERS = WatermarkKey("orders")


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a store of the test's own."""
    upgrade_embedded(tmp_path / "store.db")
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'store.db'}")


def in_store(work: Callable[[WatermarkStore], Any]) -> Any:
    """Do something with the configured store."""

    async def run() -> Any:
        async with open_store() as store:
            return await work(store)

    return asyncio.run(run())


def commit(*batches: list[Any], key: WatermarkKey = ORDERS) -> list[str]:
    """Commit batches of these items, and return their ids."""

    async def work(store: WatermarkStore) -> list[str]:
        watermark = await store.register(key, Watches(source="list", cursor="n"))
        new = [NewBatch(low=None, high=len(items), items=items, count=len(items)) for items in batches]
        _, committed = await store.commit(watermark, new[-1].high, new, PollReport())
        return [batch.id for batch in committed]

    return in_store(work)


def waiting(consumer: str) -> list[int]:
    """Return the sequence numbers that a consumer has not acknowledged."""

    async def work(store: WatermarkStore) -> list[int]:
        return [batch.seq for batch in await store.pending(Selector("orders"), consumer)]

    return in_store(work)


def test_every_batch_comes_once_oldest_first_with_its_items() -> None:
    """A second loop finds nothing."""
    commit([1, 2], [3])
    assert [(batch.seq, batch.items, batch.count) for batch in consume("orders", consumer="c")] == [
        (1, [1, 2], 2),
        (2, [3], 1),
    ]
    assert list(consume("orders", consumer="c")) == []


def test_each_consumer_gets_every_batch() -> None:
    """Consumers do not share their progress."""
    commit([1], [2])
    for consumer in ("a", "b"):
        assert [batch.seq for batch in consume("orders", consumer=consumer)] == [1, 2]


def test_a_body_that_raises_gives_its_batch_back_at_once() -> None:
    """The error is the body's own; what was finished before stays acknowledged."""
    commit([1], [2], [3])

    def fail() -> None:
        for batch in consume("orders", consumer="c"):
            if batch.seq == 2:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert waiting("c") == [2, 3]
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(2, 2), (3, 1)]


def test_leaving_the_loop_gives_the_batch_back_unless_it_was_acknowledged() -> None:
    """``break`` is not the end of the body."""
    commit([1], [2])
    for _ in consume("orders", consumer="c"):
        break
    assert waiting("c") == [1, 2]
    for batch in consume("orders", consumer="c"):
        batch.acknowledge()
        break
    assert waiting("c") == [2]


def test_max_batches_leaves_the_rest_for_later() -> None:
    """The loop ends after so many."""
    commit([1], [2], [3])
    assert [batch.seq for batch in consume("orders", consumer="c", max_batches=2)] == [1, 2]
    assert [batch.seq for batch in consume("orders", consumer="c")] == [3]


def test_a_batch_that_another_run_holds_is_left_to_it() -> None:
    """Two loops of one consumer share the work, and never a batch."""
    commit([1], [2])
    first = consume("orders", consumer="c")
    assert next(first).seq == 1
    assert [batch.seq for batch in consume("orders", consumer="c")] == [2]
    assert next(first, None) is None
    assert waiting("c") == []


def test_a_batch_that_was_taken_over_is_not_acknowledged(tmp_path: Path) -> None:
    """A worker that slept through its lease is told that another one has the batch."""
    commit([1])
    loop = consume("orders", consumer="c", lease=3600)
    next(loop)

    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE asset_watermark_claims SET holder = 'another'")
    with pytest.raises(LeaseLostError):
        next(loop)


def test_all_watermarks_of_an_asset_are_meant_unless_one_is_named() -> None:
    """An asset may have several sources."""
    commit([1])
    commit([2], key=WatermarkKey("orders", "eu", "s3"))
    assert sorted(batch.items[0] for batch in consume("orders", consumer="all")) == [1, 2]
    assert [batch.items for batch in consume("orders", consumer="one", namespace="eu")] == [[2]]
    assert [batch.items for batch in consume("orders", consumer="two", key="default")] == [[1]]


@pytest.mark.parametrize(
    "wrong", [{"start": "now"}, {"lease": 0}, {"max_batches": 0}, {"consumer": None}, {"consumer": "c" * 251}]
)
def test_a_bad_argument_is_refused_before_the_loop(wrong: dict[str, Any]) -> None:
    """The message names it."""
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))}="):
        consume("orders", **{"consumer": "c", **wrong})


def test_something_that_is_no_asset_is_refused() -> None:
    """An asset, or its name."""
    with pytest.raises(ConfigurationError, match="asset=3 is not an asset"):
        consume(3, consumer="c")


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put the test into a task of ``the_dag`` whose run was started by events with these payloads."""

    def enter(*payloads: Any, asset: str = "orders") -> None:
        events = [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]
        ti = SimpleNamespace(dag_id="the_dag", run_id="r", task_id="t", map_index=-1, try_number=1)
        context: Context = {"ti": ti, "triggering_asset_events": _Events({SimpleAsset(asset): events})}
        monkeypatch.setattr(_run, "current_context", lambda: context)

    return enter


class SimpleAsset:
    """What the context uses as a key: an asset, known by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Events(dict[Any, Any]):
    pass


def payload(store: str, *ids: str, asset: str = "orders") -> dict[str, Any]:
    """Return an event's payload as far as a consumer reads it."""
    return {"schema": 1, "store": store, "asset": asset, "batches": [{"id": each} for each in ids]}


def identity() -> str:
    """Return the identity of the configured store."""

    async def work(store: WatermarkStore) -> str:
        return await store.identity()

    return in_store(work)


def test_the_consumer_is_the_dag(in_task: Callable[..., None]) -> None:
    """Unless it is named otherwise."""
    commit([1])
    in_task(payload(identity()))
    assert [batch.seq for batch in consume("orders")] == [1]
    assert waiting("the_dag") == []


def test_a_run_of_another_store_fails_and_says_so(in_task: Callable[..., None]) -> None:
    """A worker with a SQLite file of its own would find nothing, for ever, in silence."""
    in_task(payload("another-store"))
    for use in (lambda: list(consume("orders")), lambda: pending_batches("orders")):
        with pytest.raises(WrongStoreError, match=r"another-store.*\[incremental\] store"):
            use()


def test_an_asset_that_was_announced_under_another_name_is_refused(in_task: Callable[..., None]) -> None:
    """The trigger's asset_name differs from the asset: its batches are elsewhere."""
    in_task(payload(identity(), asset="oders"))
    with pytest.raises(ConfigurationError, match="asset_name='oders'"):
        consume("orders")


@pytest.mark.parametrize("foreign", [None, "text", {"some": "other trigger"}, ["list"]])
def test_events_of_others_do_no_harm(in_task: Callable[..., None], foreign: Any) -> None:
    """An asset may be updated by tasks and by other triggers."""
    commit([1])
    in_task(foreign)
    assert [batch.seq for batch in consume("orders")] == [1]


def test_a_consumer_from_latest_gets_the_batches_that_started_its_run(in_task: Callable[..., None]) -> None:
    """And not those from before."""
    commit([1])
    ids = commit([2])
    commit([3])
    in_task(payload(identity(), *ids))
    assert [batch.seq for batch in consume("orders", start="latest")] == [2, 3]


def test_pending_batches_are_plain_json_and_each_is_processed_once(in_task: Callable[..., None]) -> None:
    """A second mapped task for the same batch is skipped."""
    commit([1], [2])
    in_task(payload(identity()))
    forms = json.loads(json.dumps(pending_batches("orders"), allow_nan=False))
    assert [form["seq"] for form in forms] == [1, 2]
    with PendingBatch.from_json(forms[1]).processing() as claimed:
        assert claimed.items == [2]
    with (
        pytest.raises(AirflowSkipException, match="already"),
        PendingBatch.from_json(forms[1]).processing(),
    ):
        pytest.fail("processed twice")
    assert [form["seq"] for form in pending_batches("orders")] == [1]


def test_a_mapped_task_that_fails_gives_its_batch_back(in_task: Callable[..., None]) -> None:
    """Its retry gets it again; meanwhile it is held."""
    commit([1])
    in_task(payload(identity()))
    pending = PendingBatch.from_json(pending_batches("orders")[0])

    def fail() -> None:
        with pending.processing():
            with pytest.raises(BatchHeldError, match="retried"), pending.processing():
                pytest.fail("two hold it")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pending.processing() as claimed:
        assert claimed.attempt == 2


def test_something_else_than_a_pending_batch_is_refused() -> None:
    """What is wrong is shown."""
    for form in ({"seq": 1}, "text", None):
        with pytest.raises(ConfigurationError, match="is not an entry of pending_batches"):
            PendingBatch.from_json(form)


def test_a_task_reads_and_writes_a_watermark() -> None:
    """``AssetWatermark`` is the entry for tasks."""
    assert AssetWatermark("orders").get_value() is None
    AssetWatermark("orders").set_value((3, "x"))
    assert AssetWatermark("orders").get_value() == (3, "x")
    assert AssetWatermark("orders", key="other").get_value() is None


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """Every session ends its thread."""
    yield
    assert "incremental-store" not in {thread.name for thread in threading.enumerate()}
