"""Small batches that are processed as one: put together up to a size, finished and given back together."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental import consume
from airflow_provider_incremental.consumers import _consumer
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.errors import StoreError, StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.unit.consumers.log import ORDERS, commit, in_store, waiting


def groups(max_items: int | None, **options: Any) -> list[list[Any]]:
    """The items of each turn of the loop."""
    return [batch.items for batch in consume("orders", consumer="c", max_items=max_items, **options)]


def test_batches_are_put_together_up_to_so_many_items() -> None:
    """In order, each item once; what is bigger by itself comes alone, and is not cut."""
    commit([1, 2], [3], [4, 5], [6], [7, 8, 9, 10], [11])
    assert groups(3) == [[1, 2, 3], [4, 5, 6], [7, 8, 9, 10], [11]]
    assert groups(3) == []
    assert waiting("c") == []


@pytest.mark.parametrize("ordered", [False, True])
def test_a_group_says_what_it_is_made_of(ordered: bool) -> None:
    """It reaches from the first batch's low edge to the last one's high edge, with the ids of all."""
    ids = commit([1], [2, 2], [3])
    [group] = consume("orders", consumer="c", max_items=9, ordered=ordered)
    assert (group.ids, group.id, group.seq, group.count) == (tuple(ids), ids[0], 1, 4)
    assert (group.low, group.high, group.attempt) == (None, 1, 1)


def test_a_group_that_fails_is_given_back_and_its_batches_come_alone() -> None:
    """One bad batch must not take its neighbours along for good."""
    commit([1], [2], [3])

    def fail() -> None:
        for batch in consume("orders", consumer="c", max_items=2):
            assert batch.items == [1, 2]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert waiting("c") == [1, 2, 3]
    assert groups(9) == [[1], [2], [3]]


def test_what_was_taken_in_advance_is_given_back_without_an_attempt() -> None:
    """The batch that did not fit any more waits as if it had not been touched."""
    commit([1, 1], [2, 2], [3, 3])
    for batch in consume("orders", consumer="c", max_items=3):
        batch.acknowledge()
        break
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(2, 1), (3, 1)]


def test_what_was_taken_before_the_store_went_away_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store goes away between two claims: what is in hand is processed, and then the error is raised."""
    commit([1], [2])
    claim, claims = SqlStore.claim, iter([None, StoreUnavailableError("away")])

    async def failing(self: SqlStore, *given: Any, **how: Any) -> Any:
        error = next(claims)
        if error is not None:
            raise error
        return await claim(self, *given, **how)

    monkeypatch.setattr(SqlStore, "claim", failing)
    found = consume("orders", consumer="c", max_items=9)
    assert next(found).items == [1]
    with pytest.raises(StoreUnavailableError, match="away"):
        next(found)
    assert waiting("c") == [2]


@pytest.mark.parametrize(("max_items", "expected"), [(100, [[1, 2, 4]]), (2, [[1, 2], [4]]), (None, [[1], [2], [4]])])
@pytest.mark.parametrize("fails", [False, True])
def test_what_can_be_read_comes_before_the_error_of_what_cannot(
    tmp_path: Path, max_items: int | None, expected: list[list[int]], *, fails: bool
) -> None:
    """A newer release wrote one batch: it stands in nobody's way, whether the body finishes the others or not."""
    commit([1], [2], [3], [4])
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE asset_watermark_batches SET items = ? WHERE seq = 3", ('[{"$vector": "1"}]',))
    found, got = consume("orders", consumer="c", max_items=max_items), []

    def process() -> None:
        for batch in found:
            got.append(batch.items)
            if fails:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError if fails else StoreError):
        process()
    assert got == (expected[:1] if fails else expected)


def test_max_batches_counts_batches_not_groups() -> None:
    """No more is taken than was allowed."""
    commit([1], [2], [3])
    assert groups(9, max_batches=2) == [[1, 2]]
    assert waiting("c") == [3]


def test_a_group_has_at_most_a_hundred_batches() -> None:
    """Each of them has a lease of its own to be renewed."""
    commit(*[[number] for number in range(150)])
    assert [len(items) for items in groups(10**6)] == [100, 50]


def test_watermarks_and_kinds_are_not_mixed() -> None:
    """What is removed, and what comes from another watermark, is a group of its own."""
    commit([1])
    commit([2], key=WatermarkKey("orders", "eu"))

    async def remove(store: Any) -> None:
        watermark = await store.load(ORDERS)
        gone = NewBatch(low=1, high=1, items=[1], count=1, kind="removed")
        await store.commit(watermark, 1, [gone], PollReport())

    in_store(remove)
    kinds = [
        (batch.watermark.namespace, batch.kind, batch.items) for batch in consume("orders", consumer="c", max_items=9)
    ]
    assert kinds == [("default", "added", [1]), ("eu", "added", [2]), ("default", "removed", [1])]


def test_ranges_are_put_together_only_where_they_touch() -> None:
    """Of a range that is only described, the edges are all there is: a gap between two would be read as well."""

    async def ranges(store: Any) -> None:
        watermark = (await store.load(ORDERS)) or None
        edges = [(1, 3), (3, 7), (9, 12)]
        new = [NewBatch(low=low, high=high, count=high - low) for low, high in edges]
        await store.commit(watermark, 12, new, PollReport())

    commit([0])
    in_store(ranges)
    found = [(batch.low, batch.high, batch.count) for batch in consume("orders", consumer="c", max_items=99)]
    assert found == [(None, 1, 1), (1, 7, 6), (9, 12, 3)]
    assert in_store(lambda store: store.pending(Selector("orders"), "c")) == []


@pytest.fixture
def take_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let this process sleep through its leases, and another worker take a batch meanwhile."""
    slept = 0.0

    class Clock(SystemClock):
        def monotonic(self) -> float:
            return time.monotonic() + slept

    def act(seq: int) -> None:
        nonlocal slept
        slept += 4000
        with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
            connection.execute("UPDATE asset_watermark_claims SET holder = 'another' WHERE seq = ?", (seq,))

    monkeypatch.setattr(_consumer, "SystemClock", Clock)
    return act


@pytest.mark.parametrize(
    ("sizes", "ordered", "expected"),
    [((1, 2, 2), False, [1, 3]), ((1, 2, 2), True, [1]), ((2, 1, 1), False, [1, 3]), ((2, 1, 1), True, [1])],
)
def test_what_another_worker_took_meanwhile_is_not_handed_out(
    take_over: Callable[[int], None], sizes: tuple[int, ...], expected: list[int], *, ordered: bool
) -> None:
    """A batch that was taken in advance by a worker that then slept is the other's; in order so is what follows."""
    commit(*[[seq] * size for seq, size in enumerate(sizes, 1)])
    seqs = []
    for batch in consume("orders", consumer="c", max_items=2, lease=3600, ordered=ordered, max_batches=3):
        seqs.append(batch.seq)
        batch.acknowledge()
        if batch.seq == 1:
            take_over(2)
    assert seqs == expected
    left = [seq for seq in (2, 3) if seq not in seqs]
    assert waiting("c") == left
    free = in_store(lambda store: store.pending(Selector("orders"), "c", free=True))
    assert [batch.seq for batch in free] == [seq for seq in left if seq != 2]
