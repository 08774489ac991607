"""A consumer inside a task: its DAG names it, and the events that started the run say what is expected."""

from __future__ import annotations

import asyncio
import getpass
import socket
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_incremental import AssetWatermark, consume, pending_batches
from airflow_provider_incremental.core.copying import copy
from airflow_provider_incremental.core.errors import (
    ConfigurationError,
    WrongStoreError,
)
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing._stage import appended
from tests.unit.consumers.log import ORDERS, commit, identity, in_store, journal, payload, waiting


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


def test_a_run_from_before_the_watermark_was_copied_here_goes_on(in_task: Callable[..., None]) -> None:
    """Its events name the store of before; they still name the batches, and other stores are still refused."""
    before = MemoryStore(identity="the-store-before")
    asyncio.run(appended(before, "an item"))
    in_store(lambda store: copy(before, store, ORDERS, Act("anna")))
    in_task(payload("the-store-before"))
    assert [batch.items for batch in consume("orders")] == [["an item"]]
    in_task(payload("the-store-before"), payload("the-store"))
    with pytest.raises(WrongStoreError, match="in the store the-store, but"):
        list(consume("orders"))


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


@pytest.mark.parametrize(("map_index", "who"), [(-1, "the_dag/r/t"), (0, "the_dag/r/t/0"), (3, "the_dag/r/t/3")])
def test_a_position_that_a_task_writes_is_in_the_journal(
    in_task: Callable[..., None], map_index: int, who: str
) -> None:
    """With the task as who did it, and its reason."""
    in_task(map_index=map_index)
    AssetWatermark("orders").set_value((3, "x"), reason="the load was rolled back")
    (entry,) = journal()
    assert (entry.who, entry.why, entry.operation) == (who, "the load was rolled back", "rewind")


def test_outside_of_a_task_the_user_is_in_the_journal() -> None:
    """As for the command line."""
    AssetWatermark("orders").set_value(7)
    assert [entry.who for entry in journal()] == [f"{getpass.getuser()}@{socket.gethostname()}"]
