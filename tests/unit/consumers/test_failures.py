"""Batches that fail: tried again with growing delay, in order or not, set aside as dead, and told of."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_incremental import DeadBatch, PendingBatch, consume, pending_batches
from airflow_provider_incremental.core.errors import BatchHeldError, ConfigurationError
from airflow_provider_incremental.core.store import Selector
from tests.unit.consumers.log import ORDERS, commit, identity, in_store, payload, waiting

PATIENT: dict[str, Any] = {"max_attempts": 3, "retry_delay": 0.0}


def fails(seq: int, **options: Any) -> list[int]:
    """Run a consumer that fails at one batch until its loop ends by itself or by that; return what it finished."""
    finished = []
    with contextlib.suppress(ZeroDivisionError):
        for batch in consume("orders", consumer="c", **options):
            if batch.seq == seq:
                raise ZeroDivisionError
            finished.append(batch.seq)
    return finished


def dead() -> list[DeadBatch]:
    """What is set aside."""
    return in_store(lambda store: store.dead_batches(Selector("orders")))


def test_a_batch_that_always_fails_is_set_aside_and_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """After so many attempts it is dead: kept, listed, logged as an error, and the callback hears of it once."""
    commit([1], [2, 2], [3])
    told: list[DeadBatch] = []
    for _ in range(2):
        assert fails(2, on_dead=told.append, **PATIENT) in ([1], [])
    assert told == []
    assert dead() == []
    fails(2, on_dead=told.append, **PATIENT)
    assert [(each.batch.seq, each.batch.count, each.consumer, each.attempts) for each in told] == [(2, 2, "c", 3)]
    assert told[0].error == "the loop's body did not finish"
    assert [each.batch.seq for each in dead()] == [2]
    assert "airflow-incremental replay orders --dead" in caplog.text
    assert fails(2, on_dead=told.append, **PATIENT) == [3]
    assert len(told) == 1


def test_a_dead_batch_that_is_replayed_begins_anew() -> None:
    """Its attempts count from 1, for the consumer that has it."""
    commit([1])
    fails(1, max_attempts=1)
    assert in_store(lambda store: store.replay(ORDERS, 1, 1, dead_only=True)) == {"c": 1}
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(1, 1)]


def test_on_dead_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The batch is dead, the body's error is the task's, and the callback's is logged."""

    def fail(_: DeadBatch) -> None:
        raise RuntimeError("no network")

    commit([1])
    assert fails(1, max_attempts=1, on_dead=fail) == []
    assert [each.batch.seq for each in dead()] == [1]
    assert "on_dead failed for batch 1 of orders" in caplog.text
    assert "no network" in caplog.text


def test_who_dies_at_a_batch_every_time_is_buried_by_the_next(caplog: pytest.LogCaptureFixture) -> None:
    """A batch that kills its workers is never given back; the next run sets it aside, and says so."""
    commit([1], [2])

    async def die(store: Any) -> None:
        await store.subscribe(Selector("orders"), "c", "earliest")
        for number in range(2):
            claim = await store.claim(Selector("orders"), "c", f"worker {number}", 0.0)
            assert claim.batch.seq == 1

    in_store(die)
    told: list[DeadBatch] = []
    found = consume("orders", consumer="c", max_attempts=2, on_dead=told.append)
    assert [batch.seq for batch in found] == [2]
    assert [(each.batch.seq, each.attempts) for each in told] == [(1, 2)]
    assert "batch 1 of orders" in caplog.text


def test_after_the_second_failure_the_others_come_first() -> None:
    """The second attempt may follow at once; after that the batch waits, and holds up nobody."""
    commit([1], [2])
    assert fails(1) == []
    assert fails(1) == []
    assert fails(1) == [2]
    assert waiting("c") == [1]


def test_in_order_nobody_overtakes() -> None:
    """While a batch waits to be tried again, an ordered consumer has nothing to do."""
    commit([1], [2])
    for _ in range(3):
        assert fails(1, ordered=True) == []
    assert waiting("c") == [1, 2]
    assert fails(1, ordered=False) == [2]


def test_giving_back_on_purpose_is_no_failure() -> None:
    """However often a task stops early, its batch does not die of it."""
    commit([1])
    for _ in range(3):
        for batch in consume("orders", consumer="c", max_attempts=2):
            assert batch.attempt == 1
            batch.give_back()
            break
    assert waiting("c") == [1]
    assert dead() == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, [1, 2, 3]), ({"ordered": True}, [1]), ({"max_items": 2}, [1, 3]), ({"max_batches": 2}, [1, 2])],
    ids=["any order", "ordered", "groups", "so many"],
)
def test_a_loop_that_goes_on_does_not_get_again_what_it_gave_back(options: dict[str, Any], expected: list[int]) -> None:
    """It gets the others, or ends where none may be overtaken; the next one gets it, at once and as a first attempt."""
    commit([1], [2], [3])
    seqs: list[int] = []
    for batch in consume("orders", consumer="c", **options):
        seqs.append(batch.seq)
        assert len(seqs) < 9
        if batch.seq < 3:
            batch.give_back()
    assert seqs == expected
    left = [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")]
    assert left == [(1, 1), (2, 1), (3, 1)][: 3 if 3 not in seqs else 2]


def test_a_mapped_task_sets_aside_too() -> None:
    """And what is dead or waits is not mapped any more."""
    commit([1], [2])
    [first, _] = pending_batches("orders", consumer="c")
    told: list[DeadBatch] = []
    for _ in range(2):
        with (
            pytest.raises(ZeroDivisionError),
            PendingBatch.from_json(first).processing(max_attempts=2, on_dead=told.append),
        ):
            raise ZeroDivisionError
    assert [(each.batch.seq, each.error) for each in told] == [(1, "ZeroDivisionError")]
    with pytest.raises(BatchHeldError, match="or is dead"), PendingBatch.from_json(first).processing():
        pass
    assert [each["seq"] for each in pending_batches("orders", consumer="c")] == [2]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"retry_delay": -1.0}, r"retry_delay=-1\.0"),
        ({"retry_delay": float("nan")}, "retry_delay=nan"),
        ({"max_items": 0}, "max_items=0 is not a number"),
        ({"max_batches": -1}, "max_batches=-1 is not a number"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], named: str) -> None:
    """When the loop is made, naming the parameter, the value and what to give."""
    with pytest.raises(ConfigurationError, match=named):
        consume("orders", consumer="c", **wrong)


def test_an_asset_that_nobody_watches_is_refused_in_a_run_of_another(in_task: Callable[..., None]) -> None:
    """A typing error would otherwise be a green run that did nothing."""
    ids = commit([1])
    in_task(payload(identity(), *ids))
    with pytest.raises(
        ConfigurationError, match=r"asset='oders': the store has no such watermark.*by batches of 'orders'"
    ):
        list(consume("oders"))


def test_an_asset_that_nobody_watches_yet_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Before the first poll there is no watermark, and that is no error."""
    assert list(consume("oders", consumer="c", namespace="eu")) == []
    assert "asset='oders', namespace='eu': the store has no such watermark yet" in caplog.text
    assert {each.levelno for each in caplog.records if "oders" in each.getMessage()} == {logging.WARNING}
