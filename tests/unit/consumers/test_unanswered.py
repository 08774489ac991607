"""A store that does not answer when a batch is finished or given back: the batch stays in hand, and is said again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from airflow_provider_incremental import PendingBatch, consume, pending_batches
from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.unit.consumers.log import commit, waiting

Fail = Callable[..., None]


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Let calls of an operation fail, by their number, before they reach the store or after they did."""

    def arrange(operation: str, *numbers: int, after: bool = False) -> None:
        real, counted = getattr(SqlStore, operation), iter(range(1, 1000))

        async def failing(self: SqlStore, *given: Any, **how: Any) -> Any:
            number = next(counted)
            if number in numbers and not after:
                raise StoreUnavailableError("away for a second")
            answer = await real(self, *given, **how)
            if number in numbers:
                raise StoreUnavailableError("the answer was lost")
            return answer

        monkeypatch.setattr(SqlStore, operation, failing)

    return arrange


def left() -> list[tuple[int, int]]:
    """What the next run gets: number and attempt."""
    return [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (1, 1, 1)])
def test_an_acknowledgement_that_failed_can_be_repeated(fail: Fail, sizes: Sequence[int], *, after: bool) -> None:
    """Until the store has answered the batch is in hand, and when it has, the batch never comes again."""
    commit(*[[number] for number in sizes])
    fail("acknowledge", 1, after=after)
    for batch in consume("orders", consumer="c", max_items=9):
        with pytest.raises(StoreUnavailableError):
            batch.acknowledge()
        batch.acknowledge()
        break
    assert waiting("c") == []


def test_an_acknowledgement_that_failed_is_repeated_at_the_end_of_the_body(fail: Fail) -> None:
    """Whether the body goes on or raises: it said that the batch is finished."""
    commit([1], [2])
    fail("acknowledge", 1, 3)

    def body(batches: Iterator[Any]) -> None:
        for batch in batches:
            with pytest.raises(StoreUnavailableError):
                batch.acknowledge()
            if batch.seq == 2:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body(consume("orders", consumer="c"))
    assert waiting("c") == []


@pytest.mark.parametrize("after", [False, True])
def test_giving_back_that_failed_is_no_acknowledgement(fail: Fail, *, after: bool) -> None:
    """A body that goes on after it asked to give the batch back did not finish it: the end asks once more."""
    commit([1])
    fail("release", 1, after=after)
    for batch in consume("orders", consumer="c", max_batches=1):
        with pytest.raises(StoreUnavailableError):
            batch.give_back()
    assert left() == [(1, 1)]


def test_a_store_that_stays_away_keeps_the_batch_until_its_lease_ends(fail: Fail) -> None:
    """The end says it once more and raises; nothing renews the lease after that."""
    commit([1])
    fail("acknowledge", 1, 2)
    batches = consume("orders", consumer="c")
    with pytest.raises(StoreUnavailableError):
        next(batches).acknowledge()
    with pytest.raises(StoreUnavailableError):
        next(batches)
    assert waiting("c") == [1]
    assert left() == []  # it is held


def test_a_mapped_task_repeats_it_too(fail: Fail) -> None:
    """The end of its block says what the block said and the store did not answer."""
    commit([1])
    fail("acknowledge", 1)
    [form] = pending_batches("orders", consumer="c")
    with PendingBatch.from_json(form).processing() as batch, pytest.raises(StoreUnavailableError):
        batch.acknowledge()
    assert waiting("c") == []
