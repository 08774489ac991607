"""A chaos run finds a loss, tells an explained repeat from one that is not, and never excuses what it should report."""

from __future__ import annotations

from typing import Any

import pytest

from harness.chaos_accounting import Account, account, recoveries
from harness.chaos_schedule import Fault


class Notes:
    """A journal that a test writes by hand; each note is a second later than the one before."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def note(self, what: str, holder: str, batch: str = "b1", **more: Any) -> None:
        who = {"consumer": "slow", "asset": "orders", "holder": holder, "batch": batch}
        self.records.append({"what": what, "at": float(len(self.records)), **who, **more})

    def tenure(self, holder: str, *items: str, batch: str = "b1", alive_before: dict[str, bool] | None = None) -> None:
        self.note("took", holder, batch, others=alive_before or {})
        self.note("processed", holder, batch, items=list(items))

    def account(self, *expected: str, faults: list[Fault] | None = None) -> Account:
        return account("slow", "orders", expected=expected, records=self.records, faults=faults or [])


@pytest.fixture
def notes() -> Notes:
    """An empty journal."""
    return Notes()


def fault(kind: str, target: str, began: float, ended: float) -> Fault:
    """A fault of so many seconds."""
    return Fault(kind=kind, target=target, note="", began=began, ended=ended)


def test_what_nobody_processed_is_lost(notes: Notes) -> None:
    """An item of the source that no consumer noted is listed by its name."""
    notes.tenure("1.1", "a", "b")
    assert notes.account("a", "b", "c").lost == {"c"}


def test_another_consumers_work_does_not_count(notes: Notes) -> None:
    """Each consumer has to process each item itself."""
    notes.tenure("1.1", "a")
    assert account("failing", "orders", expected=["a"], records=notes.records, faults=[]).lost == {"a"}


def test_what_was_overwritten_may_come_and_need_not(notes: Notes) -> None:
    """An earlier version of an item is no loss when it is missing, and no error when it came."""
    notes.tenure("1.1", "a 0", "a 1")
    result = notes.account("a 1", "b 1")
    assert result.lost == {"b 1"}
    assert result.unexplained == []


def test_a_repeat_after_the_holder_died_is_explained(notes: Notes) -> None:
    """The first holder was dead when the second took the batch, and had not acknowledged it."""
    notes.tenure("1.1", "a", "b")
    notes.tenure("2.2", "a", "b", alive_before={"1.1": False})
    result = notes.account("a", "b")
    assert (result.repeated_holder_died, result.unexplained) == (2, [])


def test_a_repeat_after_airflow_ended_the_task_is_explained(notes: Notes) -> None:
    """A task that is told to end gives its batch back: it was not finished."""
    notes.tenure("1.1", "a")
    notes.note("ended", "1.1", error="AirflowTaskTerminated")
    notes.tenure("2.2", "a", alive_before={"1.1": True})
    assert notes.account("a").repeated_holder_died == 1


def test_a_repeat_beside_a_living_holder_is_not_explained(notes: Notes) -> None:
    """Two living processes had the batch: the lease did not hold."""
    notes.tenure("1.1", "a")
    notes.tenure("2.2", "a", alive_before={"1.1": True})
    assert len(notes.account("a").unexplained) == 1


def test_a_repeat_of_a_batch_that_the_next_holder_does_not_know_is_not_explained(notes: Notes) -> None:
    """It came as a first attempt: the store has forgotten who had it."""
    notes.tenure("1.1", "a")
    notes.tenure("2.2", "a")
    assert len(notes.account("a").unexplained) == 1


@pytest.mark.parametrize(
    ("kind", "target", "began", "explained"),
    [
        ("cut the network", "store", 0.5, True),
        ("restart", "store", 0.5, True),
        ("cut the network", "source", 0.5, False),
        ("kill a triggerer", "triggerer", 0.5, False),
        ("restart", "store", 50.0, False),
    ],
)
def test_a_living_holder_can_lose_its_lease_to_a_fault_of_the_store_only(
    notes: Notes, kind: str, target: str, began: float, *, explained: bool
) -> None:
    """The fault must have hit the store, between the two times that the batch was taken or shortly before."""
    notes.tenure("1.1", "a")
    notes.tenure("2.2", "a", alive_before={"1.1": True})
    result = notes.account("a", faults=[fault(kind, target, began, began + 1)])
    assert (result.repeated_cut_off, len(result.unexplained)) == ((1, 0) if explained else (0, 1))


def test_a_repeat_after_an_acknowledgement_is_never_explained(notes: Notes) -> None:
    """Neither a death nor a fault of the store excuses the repetition of what was acknowledged."""
    notes.tenure("1.1", "a")
    notes.note("acknowledged", "1.1")
    notes.tenure("2.2", "a", alive_before={"1.1": False})
    assert len(notes.account("a", faults=[fault("restart", "store", 0, 9)]).unexplained) == 1


def test_a_task_that_ended_well_explains_nothing(notes: Notes) -> None:
    """It is dead by now, as every task; but it left without an acknowledgement."""
    notes.tenure("1.1", "a")
    notes.note("left", "1.1")
    notes.tenure("2.2", "a", alive_before={"1.1": False})
    assert len(notes.account("a").unexplained) == 1


def test_an_item_in_two_batches_is_not_explained(notes: Notes) -> None:
    """The log must hold an item once; who died does not matter."""
    notes.tenure("1.1", "a", batch="b1")
    notes.tenure("2.2", "a", batch="b2", alive_before={"1.1": False})
    assert len(notes.account("a").unexplained) == 1


def test_each_further_time_is_judged_by_the_time_before(notes: Notes) -> None:
    """Three times: once explained by a death, once not."""
    notes.tenure("1.1", "a")
    notes.tenure("2.2", "a", alive_before={"1.1": False})
    notes.tenure("3.3", "a", alive_before={"1.1": False, "2.2": True})
    result = notes.account("a")
    assert (result.repeated_holder_died, len(result.unexplained)) == (1, 1)


def test_a_batch_that_is_always_refused_is_dead_and_not_lost(notes: Notes) -> None:
    """All of its items; while a batch that has no such item must not be dead."""
    notes.tenure("1.1", "1 0")
    common: dict[str, Any] = {"expected": ["1 0", "1008 0", "1009 0"], "records": notes.records, "faults": []}
    right = account("failing", "orders", **common | {"dead": [["1008 0", "1009 0"], ["1 0", "2018 3"]]})
    assert (right.lost, right.wrongly_dead) == (set(), [])
    wrong = account("failing", "orders", **common | {"dead": [["1 0", "1008 0"]]})
    assert (wrong.lost, wrong.wrongly_dead) == ({"1009 0"}, ["1 0"])


def test_recovery_counts_until_new_items_of_every_asset_were_processed() -> None:
    """What was written before the fault says nothing about the recovery."""
    records = [
        {"what": "processed", "asset": "orders", "items": ["old"], "at": 11.0},
        {"what": "processed", "asset": "orders", "items": ["new"], "at": 15.0},
        {"what": "processed", "asset": "files", "items": ["new"], "at": 13.0},
    ]
    written = {("orders", "old"): 9.0, ("orders", "new"): 12.0, ("files", "new"): 11.0}
    found = recoveries([fault("restart", "store", 10, 12), fault("restart", "store", 14, 15)], records, written)
    assert found == {"restart: store": [5.0]}
