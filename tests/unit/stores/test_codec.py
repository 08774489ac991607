"""Rows and values: big ones are encoded and decoded where they do not hold up the event loop."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.sql import codec
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.databases import migrated

KEY = WatermarkKey("orders")
ASSET = Selector("orders")

SMALL = [{"id": number, "name": "customer", "total": Decimal("1.10")} for number in range(10)]
BIG = {
    "many items": list(range(100_000)),
    "one long text": ["x" * 2_000_000],
    "long bytes in a row": [{"id": 1, "picture": b"\xff" * 2_000_000}],
    "one deep item": [[[{"a": list(range(50_000))}]]],
    "one wide row": [{str(number): number for number in range(50_000)}],
}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    """A store on a SQLite file."""
    store = SqlStore(url=await migrated(f"sqlite:///{tmp_path}/store.db"))
    yield store
    await store.aclose()


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[bool]]:
    """Whether batches were encoded and decoded on the event loop's thread."""
    seen: dict[str, set[bool]] = {"encoded": set(), "decoded": set()}

    def noting(act: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            seen[act].add(threading.current_thread() is threading.main_thread())
            return work(*given)

        return noted

    monkeypatch.setattr(codec, "_encode", noting("encoded", codec._encode))
    monkeypatch.setattr(codec, "_batch", noting("decoded", codec._batch))
    return seen


async def round_trip(store: SqlStore, items: list[Any]) -> None:
    """Commit items, and get them back by a claim and by the history."""
    watermark = await store.register(KEY, Watches("a", "b"))
    await store.commit(watermark, 1, [NewBatch(low=0, high=1, items=items, count=len(items))], PollReport())
    await store.subscribe(ASSET, "load", "earliest")
    claim = await store.claim(ASSET, "load", "holder", 60)
    assert claim is not None
    assert claim.batch.items == items
    assert [batch.items for batch in await store.history(KEY)] == [items]


@pytest.mark.parametrize("items", BIG.values(), ids=BIG)
async def test_big_items_stay_off_the_event_loop(
    store: SqlStore, threads: dict[str, set[bool]], items: list[Any]
) -> None:
    """However items are big, in number, in length or in depth: another thread reads and writes their JSON."""
    await round_trip(store, items)
    assert threads == {"encoded": {False}, "decoded": {False}}


async def test_small_items_pay_for_no_thread(store: SqlStore, threads: dict[str, set[bool]]) -> None:
    """What takes microseconds is done at once."""
    await round_trip(store, SMALL)
    assert threads == {"encoded": {True}, "decoded": {True}}


async def test_many_small_batches_are_big_together(store: SqlStore, threads: dict[str, set[bool]]) -> None:
    """A backlog that is committed and announced in one go counts as a whole."""
    watermark = await store.register(KEY, Watches("a", "b"))
    backlog = [NewBatch(low=0, high=1, items=SMALL * 10, count=100) for _ in range(200)]
    await store.commit(watermark, 1, backlog, PollReport())
    due = await store.due(KEY, 60, inline_bytes=1_000_000)
    assert [batch.items for batch in due] == [SMALL * 10] * 200
    assert threads == {"encoded": {False}, "decoded": {False}}


@pytest.mark.parametrize("items", [[], [1], ["]", "[", ","], [[], [[]]], [None, {"a": []}, (1, (2,))], SMALL])
def test_items_are_the_json_of_their_list(items: list[Any]) -> None:
    """Written and read item by item, it is the same text and the same list as in one go."""
    text = codec._items_text(items)
    assert text == values.dumps(items)
    assert codec._text_items(text) == items
