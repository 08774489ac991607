"""The sensor: waits for batches that a consumer could claim, in the worker or in the triggerer."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_provider_incremental import IncrementalBatchSensor, PendingBatch, consume
from airflow_provider_incremental.consumers import _run
from airflow_provider_incremental.core.errors import ConfigurationError, SourceError, StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.sensors import waiting
from airflow_provider_incremental.sensors.waiting import PendingBatchTrigger
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing._stage import appended
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.unit.consumers.log import commit, in_store

CONTEXT: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of the test's own, and a task of a DAG that no event started."""
    upgrade_embedded(tmp_path / "store.db")
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'store.db'}")
    ti = SimpleNamespace(dag_id="nightly", run_id="r", task_id="t", map_index=-1, try_number=1)
    monkeypatch.setattr(_run, "current_context", lambda: {"ti": ti, "triggering_asset_events": {}})


def sensor(**options: Any) -> IncrementalBatchSensor:
    """A sensor on the orders."""
    return IncrementalBatchSensor(**{"task_id": "wait", "asset": Asset("orders"), **options})


def deferred(act: Any) -> Any:
    """How a sensor went to wait in the triggerer; where the exception lives depends on the release."""
    with pytest.raises(BaseException, check=lambda stop: type(stop).__name__ == "TaskDeferred") as stop:
        act()
    return stop.value


def test_it_waits_until_there_is_a_batch_and_returns_what_a_mapped_task_takes() -> None:
    """The DAG is the consumer; what it has finished does not count."""
    commit([1])
    list(consume("orders"))
    assert not sensor().poke(CONTEXT).is_done
    commit([2], [3])
    found = sensor().poke(CONTEXT)
    assert found.is_done
    assert [each["seq"] for each in found.xcom_value] == [2, 3]
    with PendingBatch.from_json(found.xcom_value[0]).processing() as claimed:
        assert claimed.items == [2]
    assert [each["seq"] for each in sensor().execute(CONTEXT)] == [3]


def test_what_somebody_holds_or_what_must_wait_is_not_waited_for() -> None:
    """There would be nothing to do."""
    commit([1], [2])
    sensor().poke(CONTEXT)
    orders = Selector("orders")

    async def take(store: Any) -> None:
        await store.claim(orders, "nightly", "another run", 60.0)
        claim = await store.claim(orders, "nightly", "another run", 60.0)
        await store.release(claim, "failed", retry_after=60.0)

    in_store(take)
    assert not sensor().poke(CONTEXT).is_done


def test_a_deferrable_sensor_asks_once_and_then_waits_in_the_triggerer() -> None:
    """A batch that is there is returned at once; otherwise the trigger knows the consumer, and the time is bounded."""
    stop = deferred(lambda: sensor(deferrable=True, poke_interval=5, timeout=100, key="eu").execute(CONTEXT))
    assert isinstance(stop.trigger, PendingBatchTrigger)
    assert stop.trigger.serialize() == (
        "airflow_provider_incremental.sensors.waiting.PendingBatchTrigger",
        {"asset_name": "orders", "consumer": "nightly", "key": "eu", "poll_interval": 5.0, "stored": 1},
    )
    assert stop.timeout is not None
    assert dt.timedelta(seconds=90) < stop.timeout <= dt.timedelta(seconds=100)
    commit([1])
    assert [each["seq"] for each in sensor(deferrable=True).execute(CONTEXT)] == [1]


def test_what_was_taken_meanwhile_is_waited_for_again_within_the_same_time() -> None:
    """The deadline is that of the first wait."""
    until = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=50)).isoformat()
    again = deferred(lambda: sensor(deferrable=True).execute_complete(CONTEXT, {"waiting": True}, until))
    assert again.timeout is not None
    assert again.timeout <= dt.timedelta(seconds=50)
    assert again.kwargs == {"until": until}
    commit([1])
    found = sensor(deferrable=True).execute_complete(CONTEXT, {"waiting": True}, until)
    assert [each["seq"] for each in found] == [1]


def test_a_trigger_that_cannot_wait_fails_the_task_not_the_triggerer() -> None:
    """What is stored may be of another release: the fault comes as an event."""
    broken = PendingBatchTrigger(asset_name="orders", consumer="c", poll_interval="soon", stored=1)
    [event] = asyncio.run(events(broken))
    assert "poll_interval='soon'" in event["error"]
    with pytest.raises(SourceError, match=r"wait: .*poll_interval='soon'"):
        sensor(deferrable=True).execute_complete(CONTEXT, event, "2026-01-01T00:00:00+00:00")


async def events(trigger: PendingBatchTrigger) -> list[Any]:
    """All that a trigger yields."""
    return [event.payload async for event in trigger.run()]


async def test_the_trigger_ends_with_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks at its pace, also after a store that was away, and says nothing more than that there is something."""
    clock = FakeClock()
    asked: list[float] = []

    class Store:
        async def subscribe(self, selector: Selector, consumer: str, start: str) -> None:
            assert (selector, consumer, start) == (Selector("orders"), "c", "earliest")

        async def pending(self, selector: Selector, consumer: str, limit: int, *, free: bool) -> list[str]:
            assert (selector, consumer, limit, free) == (Selector("orders"), "c", 1, True)
            asked.append(clock.monotonic())
            if len(asked) == 2:
                raise StoreUnavailableError("away")
            return ["batch"] if len(asked) == 4 else []

    class Opened:
        async def __aenter__(self) -> Store:
            return Store()

        async def __aexit__(self, *error: object) -> None:
            return None

    monkeypatch.setattr(waiting, "open_store", Opened)
    trigger = PendingBatchTrigger(asset_name="orders", consumer="c", poll_interval=10)
    trigger.clock = clock
    found = asyncio.create_task(events(trigger))
    await clock.run_for(100)
    assert await found == [{"waiting": True}]
    assert asked == [0, 10, 20, 30]


async def test_the_trigger_finds_watermarks_that_are_made_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of the asset, or one more of it; also for a consumer that begins with the latest."""
    store, clock, orders = MemoryStore(), FakeClock(), Selector("orders")
    monkeypatch.setattr(waiting, "open_store", lambda: contextlib.nullcontext(store))
    await appended(store, "before", key=WatermarkKey("orders"))
    trigger = PendingBatchTrigger(asset_name="orders", consumer="c", start="latest", poll_interval=10)
    trigger.clock = clock
    found = asyncio.create_task(events(trigger))
    await clock.run_for(15)
    assert not found.done()
    await appended(store, "after", key=WatermarkKey("orders", "default", "eu"))
    await clock.run_for(15)
    assert await found == [{"waiting": True}]
    assert [each.key.key for each in await store.pending(orders, "c", 10, free=True)] == ["eu"]


@pytest.mark.parametrize("wrong", [None, 5, ""])
def test_what_is_no_asset_is_refused_in_the_dag_file(wrong: Any) -> None:
    """Before anything waits for it."""
    with pytest.raises(ConfigurationError, match="asset="):
        sensor(asset=wrong)


def test_the_setting_decides_whether_it_defers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for every operator of Airflow."""
    assert not sensor().deferrable
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert sensor().deferrable
    assert not sensor(deferrable=False).deferrable
