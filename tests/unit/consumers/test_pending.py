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
from airflow_provider_incremental.wiring.airflow import AirflowSkipException
from tests.unit.consumers.log import commit, identity, payload


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
