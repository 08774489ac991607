"""The condition of a batch finds exactly its rows, or is refused with the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_incremental import consume
from airflow_provider_incremental.consumers._work import ClaimedBatch
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import PollReport, Watches
from tests.unit.consumers.log import ORDERS, in_store

REMEDY = r"use its items, .*payload=\"range\" and without lateness, removals and deleted_column"


def commit(*batches: NewBatch, remember: Pieces = NOTHING, cursor: str = "id") -> None:
    """Commit batches of a watermark on rows."""

    async def work(store: WatermarkStore) -> None:
        watermark = await store.register(ORDERS, Watches(source="sql://shop/orders", cursor=cursor))
        await store.commit(watermark, batches[-1].high, batches, PollReport(), remember)

    in_store(work)


def rows(low: int | None, high: int, *numbers: int, kind: Any = "added") -> NewBatch:
    """Return a batch with the rows of these ids."""
    items = [{"id": number} for number in numbers]
    edge = None if low is None else (low,)
    return NewBatch(low=edge, high=(high,), items=items, count=len(items), kind=kind)


def span(low: int | None, high: int, count: int) -> NewBatch:
    """Return a batch with bounds and a count only."""
    return NewBatch(low=None if low is None else (low,), high=(high,), count=count)


def claimed(**options: Any) -> Iterator[ClaimedBatch]:
    yield from consume("orders", consumer="c", **options)


def refused(batch: ClaimedBatch, said: str) -> None:
    for condition in (batch.where, batch.where_clause):
        with pytest.raises(ConfigurationError, match=said):
            condition()


def test_rows_that_are_gone_have_no_condition() -> None:
    """Their batch has the bounds of the poll that found them gone."""
    commit(rows(None, 3, 1, 3), rows(None, 3, 2, kind="removed"))
    for batch in claimed():
        if batch.kind == "removed":
            refused(batch, f"batch 2 of orders tells of rows that are gone.*{REMEDY}")
        else:
            assert batch.where("qmark").parameters == [3]


def test_rows_that_came_late_lie_outside_of_the_bounds() -> None:
    """A batch of them alone ends where it begins."""
    commit(rows(23, 23, 12, 13, 14))
    for batch in claimed():
        refused(batch, f"batch 1 of orders holds rows that came late.*{REMEDY}")


@pytest.mark.parametrize("piece", [b"[]", b"off"])
def test_where_rows_may_come_late_the_bounds_hold_others(piece: bytes) -> None:
    """Of a watermark that has or had lateness; a batch with bounds only was made without it."""
    commit(rows(18, 21, 19, 20, 21), span(21, 30, 4), remember={"lateness": piece})
    for batch in claimed():
        if batch.items:
            refused(batch, f"batch 1 of orders .*lateness.*{REMEDY}")
        else:
            assert batch.where("qmark").parameters == [21, 30]


def test_where_a_column_parts_the_rows_both_batches_have_the_same_bounds() -> None:
    """The source has recorded that it gives marked rows apart."""
    shape = dumps({"dialect": "sqlite", "kinds": ["INTEGER"], "parted": True}).encode()
    commit(rows(None, 3, 1, 3), remember={"rows/shape": shape})
    for batch in claimed():
        refused(batch, f"batch 1 of orders .*deleted_column.*{REMEDY}")


def test_batches_put_together_with_a_gap_are_refused() -> None:
    """Between them lie the rows of another that another worker has, or finished."""
    commit(rows(None, 2, 1, 2), rows(2, 4, 3, 4), rows(4, 6, 5, 6))
    for batch in claimed(max_batches=2):
        if batch.seq == 1:
            batch.give_back()
    for batch in claimed(max_items=100):
        assert batch.count == 4
        refused(batch, "batches 1 to 3 of orders.*do not follow one another.*max_items")


def test_batches_put_together_without_a_gap_are_one_range() -> None:
    """From the first's lower bound to the last's upper."""
    commit(rows(None, 2, 1, 2), rows(2, 4, 3, 4))
    for batch in claimed(max_items=100):
        assert batch.where("qmark").parameters == [4]


@pytest.mark.parametrize("shape", [b"", b"[]", b"{}", b'{"kinds":3,"dialect":7}', b'{"$x":"y"}', b"\xff"])
def test_a_record_in_another_form_records_nothing(shape: bytes) -> None:
    """Of an earlier or a later release; names that need quotes then ask for the dialect."""
    commit(rows(None, 2, 1, 2), remember={"rows/shape": shape}, cursor="order")
    for batch in claimed():
        with pytest.raises(ConfigurationError, match=r"'order' .*dialect='postgresql', 'mysql'"):
            batch.where()
        assert batch.where("qmark", dialect="mysql").sql == "(`order` <= ?)"


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [("mysql", "(`order` <= ?)"), ("mariadb", "(`order` <= ?)"), ("postgresql", '("order" <= ?)')],
)
def test_names_are_quoted_as_the_watched_database_does(dialect: str, sql: str) -> None:
    """The source has recorded which it is; a dialect that is given counts first."""
    shape = dumps({"dialect": dialect, "kinds": ["INTEGER"], "parted": False}).encode()
    commit(rows(None, 2, 1, 2), remember={"rows/shape": shape}, cursor="order")
    for batch in claimed():
        assert batch.where("qmark").sql == sql
        assert batch.where("qmark", dialect="mssql").sql == "([order] <= ?)"
