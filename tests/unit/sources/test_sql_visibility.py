"""The edge that open transactions give, from look to look, as a pure decision."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_incremental.sources.sql_visibility import Edge, Horizon, Look, OpenTransaction

NOON = dt.datetime.fromisoformat("2026-01-31 12:00+00:00")


def one(name, *, age=1.0, **facts):
    """An open transaction."""
    return OpenTransaction(id=name, who=name, age=age, **facts)


class Looks:
    """Looks a second apart, the mark of each being its number times ten."""

    def __init__(self, **options: float) -> None:
        self.horizon = Horizon(by_value=False, **options)
        self.count = 0

    def see(self, *transactions: OpenTransaction) -> Edge:
        self.count += 1
        now = NOON + dt.timedelta(seconds=self.count)
        return self.horizon.look(Look(now=now, mark=self.count * 10, open=transactions))


def test_without_open_transactions_the_edge_is_the_mark() -> None:
    """Everything that was seen is complete."""
    looks = Looks()
    assert [looks.see().value, looks.see().value] == [10, 20]


def test_a_transaction_that_was_always_there_holds_everything() -> None:
    """Nobody knows what it took before the first look; when it ends, everything that was seen is complete."""
    looks = Looks()
    for _ in range(3):
        edge = looks.see(one("a"))
        assert (edge.value, edge.holder and edge.holder.who) == (None, "a")
    assert looks.see().value == 40


def test_a_transaction_holds_at_the_last_look_before_it() -> None:
    """It takes no smaller number than what was seen before it was there, however long it stays."""
    looks = Looks()
    looks.see()
    assert [looks.see(one("a")).value, looks.see(one("a")).value] == [10, 10]
    assert looks.see(one("a"), one("b")).value == 10
    assert looks.see(one("b")).value == 30
    assert looks.see().value == 60


def test_transactions_that_overlap_do_not_hold_for_ever() -> None:
    """One after the other is always open, and the edge follows a look behind."""
    looks = Looks()
    looks.see(one("0"))
    assert [looks.see(one(str(number)), one(str(number + 1))).value for number in range(1, 5)] == [10, 10, 20, 30]


def test_a_prepared_transaction_inherits_from_those_that_are_gone() -> None:
    """It may be one of them under a new name: it holds where the lowest of them did."""
    looks = Looks()
    looks.see()
    looks.see(one("a"))
    looks.see(one("a"), one("b"))
    assert looks.see(one("b"), one("gid", heir_of="")).value == 10
    assert looks.see(one("gid", heir_of="")).value == 10
    assert looks.see(one("gid", heir_of=""), one("c")).value == 10
    assert looks.see(one("c")).value == 50


def test_a_prepared_transaction_of_unknown_origin_holds_everything() -> None:
    """Prepared before the first look, or by one that was open at it."""
    looks = Looks()
    assert looks.see(one("gid", heir_of="")).value is None
    looks = Looks()
    looks.see(one("a"))
    assert looks.see(one("gid", heir_of="")).value is None


def test_a_statement_becomes_the_transaction_of_its_session() -> None:
    """What a statement may have taken before, its transaction may add; another session's is none of its business."""
    looks = Looks()
    looks.see()
    looks.see(one("7 statement", at_most=3.0))
    assert looks.see(one("7 12:00:03", heir_of="7 statement"), one("8 12:00:03", heir_of="8 statement")).value == 10
    assert looks.see(one("8 12:00:03", heir_of="8 statement")).value == 20


def test_a_statement_that_began_since_the_last_look_is_another_one() -> None:
    """A busy session runs something whenever it is looked at: that holds nothing for long."""
    looks = Looks()
    looks.see()
    assert looks.see(one("7 statement", at_most=0.5)).value == 10
    assert looks.see(one("7 statement", at_most=0.5)).value == 20
    assert looks.see(one("7 statement", at_most=1.5)).value == 20


def test_max_hold_goes_on_past_what_is_open_for_longer() -> None:
    """Past it only: the others still hold. What is passed is told, while it would hold."""
    looks = Looks(max_hold=60.0)
    edge = looks.see(one("a", age=61.0))
    assert (edge.value, [each.who for each in edge.passed]) == (10, ["a"])
    edge = looks.see(one("a", age=62.0), one("b", age=59.0))
    assert (edge.value, edge.holder and edge.holder.who) == (10, "b")


def test_a_look_that_failed_makes_everything_void() -> None:
    """What is open afterwards may be anything."""
    looks = Looks()
    looks.see()
    looks.horizon.forget()
    assert looks.see(one("a")).value is None


@pytest.mark.parametrize(("floor", "expected"), [(5, 5), (15, 10)])
def test_a_start_that_is_recorded_is_the_floor(floor: int, expected: int) -> None:
    """Where the database says when a transaction began; never above the mark."""
    horizon = Horizon(by_value=True)
    assert horizon.look(Look(now=NOON, mark=10, open=[one("a", floor=floor)])).value == expected
