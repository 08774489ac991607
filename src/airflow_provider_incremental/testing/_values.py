"""The store suite's part on values: a cursor or an item comes back equal in value, in type, to the last digit."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._stage import (
    KEY,
    LONG,
    NOTHING,
    ORDERS,
    WATCHES,
    appended,
    loaded,
    slice_of,
    taken,
)

_EAST = dt.timezone(dt.timedelta(hours=5, minutes=45))

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**53,
    2**53 + 1,
    -(2**63),
    10**60,
    0.1,
    -0.0,
    1e308,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    Decimal("1.10"),
    Decimal("-0"),
    Decimal("123456789012345678901234567890.123456789012345678901234567890"),
    Decimal("1E+400"),
    Decimal("NaN"),
    "",
    "plain",
    " padded\t\r\n",
    "\x00",
    "a\x00b",
    "\U0001f600\u200d\U0001f680",
    "caf\u00e9",
    "cafe\u0301",
    "\ud800",
    "\udfff\ud800 tail",
    "'; DROP TABLE asset_watermarks; --",
    '{"$int": "1"}',
    "\\u0000 %s :name ?",
    b"",
    bytes(range(256)),
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.datetime.fromisoformat("2026-03-29T02:30:00.000001"),
    dt.datetime.fromisoformat("0001-01-01T00:00:00"),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=_EAST),
    dt.time(23, 59, 59, 999999),
    dt.timedelta(days=-1, microseconds=1),
    (dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), 17),
    ("", Decimal("0.10"), b"\x00", uuid.UUID(int=0), None),
    ((1,), ()),
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last digit, the last bit of the sign, and the type."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return repr(one) == repr(other)


def _named(value: Any) -> str:
    return f"{type(value).__name__}-{ascii(value)[:40]}"


class ValueTests:
    """What a store promises of the values that it is given."""

    @pytest.mark.parametrize("value", VALUES, ids=_named)
    async def test_a_cursor_comes_back_as_it_was(self, store: WatermarkStore, peer: WatermarkStore, value: Any) -> None:
        """Everywhere that a cursor is returned, it is the value that went in: type, precision and zone."""
        watermark = await store.register(KEY, WATCHES)
        marks = [bytes(16)]
        moved, [batch] = await store.commit(watermark, value, [slice_of(value, value, ["a"], marks=marks)], NOTHING)
        await store.subscribe(ORDERS, "load", "earliest")
        [logged] = await peer.history(KEY)
        [due] = await peer.due(KEY, LONG)
        [pending] = await peer.pending(ORDERS, "load")
        claimed = (await taken(peer)).batch
        [seen] = await peer.seen(KEY, 0, None, 1)
        assert same(moved.cursor, value)
        assert same((await loaded(peer)).cursor, value)
        assert same(seen.high, value)
        for each in (batch, logged, due, pending, claimed):
            assert same(each.low, value)
            assert same(each.high, value)
        assert same((await store.rewind(KEY, value, reread=False)).cursor, value)
        assert same((await loaded(peer)).cursor, value)

    async def test_items_come_back_as_they_were(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Items of every type, and nested, are the same in the log, in an announcement and in a claim."""
        items = [*VALUES, {"row": dict(enumerate(VALUES)), "$int": "1", "": [[], {}]}, {"$str": {"$tuple": (1, [2])}}]
        batch = await appended(store, *items)
        await store.subscribe(ORDERS, "load", "earliest")
        [logged] = await peer.history(KEY)
        [due] = await peer.due(KEY, LONG, inline_bytes=batch.items_bytes)
        claimed = (await taken(peer)).batch
        for each in (logged, due, claimed):
            assert same(each.items, items)

    async def test_nobody_holds_a_reference_into_the_store(self, store: WatermarkStore) -> None:
        """What a caller does to a value before or after a call does not reach the store."""
        row = {"tags": ["a"]}
        cursor = ["c"]
        watermark = await store.register(KEY, WATCHES)
        await store.commit(watermark, cursor, [slice_of(cursor, cursor, [row])], NOTHING)
        row["tags"].append("b")
        cursor.append("d")
        for _ in range(2):
            [logged] = await store.history(KEY)
            moved = await loaded(store)
            assert (logged.items, logged.low, logged.high, moved.cursor) == ([{"tags": ["a"]}], ["c"], ["c"], ["c"])
            assert logged.items is not None
            logged.items.clear()
            logged.low.clear()
            logged.high.clear()
            moved.cursor.clear()

    async def test_a_very_big_item_is_kept(self, store: WatermarkStore) -> None:
        """Ten million characters, and as many bytes of another row, are an item like any other."""
        items = ["x" * 10_000_000, b"\xff" * 5_000_000]
        batch = await appended(store, *items)
        assert batch.items_bytes > sum(map(len, items))
        await store.subscribe(ORDERS, "load", "earliest")
        assert (await taken(store)).batch.items == items

    async def test_many_items_are_kept_in_order(self, store: WatermarkStore) -> None:
        """A batch of ten thousand items comes back whole and in order."""
        items = list(range(10_000))
        await appended(store, *items)
        [logged] = await store.history(KEY)
        assert (logged.items, logged.count) == (items, len(items))

    async def test_a_batch_may_have_a_count_and_no_items(self, store: WatermarkStore) -> None:
        """A source may deliver bounds and a count only: the batch is claimed with an empty list."""
        watermark = await store.register(KEY, WATCHES)
        new = slice_of(1, 2)
        await store.commit(watermark, 2, [type(new)(low=1, high=2, count=500)], NOTHING)
        await store.subscribe(ORDERS, "load", "earliest")
        claimed = (await taken(store)).batch
        assert (claimed.items, claimed.count, claimed.low, claimed.high) == ([], 500, 1, 2)
