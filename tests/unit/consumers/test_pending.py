"""Batches for mapped tasks: plain JSON, each claimed by one task."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from airflow_provider_incremental import PendingBatch, pending_batches
from airflow_provider_incremental.core.errors import (
    BatchHeldError,
    ConfigurationError,
)
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.wiring.airflow import AirflowSkipException
from tests.unit.consumers.log import ORDERS, commit, identity, in_store, payload


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


@pytest.mark.parametrize("how", ["pruned", "made anew"])
def test_a_batch_that_is_gone_from_the_log_is_skipped(in_task: Callable[..., None], how: str) -> None:
    """However often the task is cleared: nobody needs it any more, so there is nothing to wait for."""
    commit([1], [2])
    in_task(payload(identity()))
    first, second = map(PendingBatch.from_json, pending_batches("orders"))
    if how == "pruned":
        for each in (first, second):
            with each.processing():
                pass
        assert in_store(prune_all) == 2
    else:
        in_store(lambda store: store.forget(ORDERS))
        commit([1], [2])
    for each in (first, second):
        with pytest.raises(AirflowSkipException, match="is not in the log any more"), each.processing():
            pytest.fail("processed twice")


def test_a_batch_from_before_a_consumer_began_is_skipped(in_task: Callable[..., None]) -> None:
    """One that was forgotten and began again behind a batch is never given it."""
    commit([1])
    in_task(payload(identity()))
    (pending,) = map(PendingBatch.from_json, pending_batches("orders", consumer="c"))

    async def begin_again(store: WatermarkStore) -> None:
        await store.unsubscribe(Selector("orders"), "c")
        await store.subscribe(Selector("orders"), "c", "latest")

    in_store(begin_again)
    with pytest.raises(AirflowSkipException, match="c began after it"), pending.processing():
        pytest.fail("not for it")


def test_a_dead_batch_is_not_taken_for_a_processed_one(in_task: Callable[..., None]) -> None:
    """It is there to be replayed, though everything before it and after it is done."""
    commit([1], [2])
    in_task(payload(identity()))
    first, second = map(PendingBatch.from_json, pending_batches("orders"))
    with pytest.raises(ZeroDivisionError), first.processing(max_attempts=1):
        raise ZeroDivisionError
    with second.processing():
        pass
    with pytest.raises(BatchHeldError, match="or is dead"), first.processing():
        pytest.fail("set aside")


async def prune_all(store: WatermarkStore) -> int:
    """Delete what is confirmed and acknowledged, however young."""
    await store.confirm(ORDERS, [batch.id for batch in await store.history(ORDERS)])
    return await store.prune(ORDERS, -3600.0, 2**62)


def test_something_else_than_a_pending_batch_is_refused() -> None:
    """What is wrong is shown."""
    for form in ({"seq": 1}, "text", None):
        with pytest.raises(ConfigurationError, match="is not an entry of pending_batches"):
            PendingBatch.from_json(form)
