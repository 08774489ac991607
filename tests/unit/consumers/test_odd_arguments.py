"""What a task's code does to a loop over batches that nobody expects: forks, other threads, odd arguments."""

from __future__ import annotations

import pytest

from airflow_provider_incremental import consume
from airflow_provider_incremental.core.errors import ConfigurationError
from tests.unit.consumers.log import commit


@pytest.mark.parametrize("lease", [float("inf"), 1e12, 1e15, "300", True, None])
def test_a_lease_that_no_calendar_holds_is_refused_by_name(lease: object) -> None:
    """The message names the parameter, before anything is claimed."""
    commit([1])
    with pytest.raises(ConfigurationError, match="lease="):
        list(consume("orders", consumer="c", lease=lease))


@pytest.mark.parametrize("max_batches", ["3", 1.5, True])
def test_a_number_of_batches_that_is_none_is_refused_by_name(max_batches: object) -> None:
    """1.5 never equals a count: the loop would go on for ever."""
    with pytest.raises(ConfigurationError, match="max_batches="):
        consume("orders", consumer="c", max_batches=max_batches)


@pytest.mark.parametrize("consumer", [" c", "c ", "c\n", "c\x00", "\ud800", 7, b"c"])
def test_a_consumers_name_that_cannot_be_kept_is_refused(consumer: object) -> None:
    """With our own error, whatever is wrong with it."""
    commit([1])
    with pytest.raises(ConfigurationError):
        list(consume("orders", consumer=consumer))


def test_a_group_holds_no_batch_twice() -> None:
    """A backlog that takes longer to put together than a lease lasts comes once all the same."""
    commit(*[[number] for number in range(1500)])
    items: list[int] = []
    for batch in consume("orders", consumer="c", lease=1.0, max_items=10**6):
        items += batch.items
    assert len(items) == len(set(items))
