"""The payload of an event: strict JSON, a few KB whatever it names, and enough for a consumer to find the rest."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_incremental.core.announcement import Announcement
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.values import decode, dumps
from airflow_provider_incremental.core.watermark import WatermarkKey

KEY = WatermarkKey("orders", "east", "one")
A_FEW_KB = 9000
AT = dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=dt.UTC)

CURSORS = st.one_of(
    st.none(), st.integers(), st.text(max_size=2000), st.tuples(st.datetimes(), st.binary(max_size=900))
)
ITEMS = st.one_of(st.none(), st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=300)), max_size=20))


def batch(seq: int, items: list[Any] | None = None, low: Any = None, high: Any = None, count: int = 1) -> Batch:
    """A committed batch."""
    return Batch(key=KEY, id=f"{seq:032x}", seq=seq, low=low, high=high, count=count, items=items)


def size(payload: Any) -> int:
    """Its size as the strictest reader would store it."""
    return len(json.dumps(payload, allow_nan=False))


def test_the_payload_of_one_batch() -> None:
    """Schema 1, field by field: this is public, and only grows."""
    payload = Announcement(KEY, "the store", [batch(7, [{"id": 1}], low=(AT, 1), high=(AT, 2))]).payload
    cursor = {"$datetime": "2026-01-31T12:00:00.000001+00:00"}
    assert payload == {
        "schema": 1,
        "store": "the store",
        "asset": "orders",
        "namespace": "east",
        "key": "one",
        "low": {"$tuple": [cursor, 1]},
        "high": {"$tuple": [cursor, 2]},
        "count": 1,
        "batches": [
            {
                "id": f"{7:032x}",
                "seq": 7,
                "kind": "added",
                "low": {"$tuple": [cursor, 1]},
                "high": {"$tuple": [cursor, 2]},
                "count": 1,
                "items": [{"id": 1}],
            }
        ],
        "batches_omitted": 0,
    }


def test_the_bounds_and_the_count_are_those_of_all_batches() -> None:
    """From the low of the first to the high of the last, counting what has no room as well."""
    many = [batch(seq, low=seq - 1, high=seq, count=3) for seq in range(1, 1001)]
    announcement = Announcement(KEY, "s", many)
    payload = announcement.payload
    assert (payload["low"], payload["high"], payload["count"]) == (0, 1000, 3000)
    assert [each["seq"] for each in payload["batches"]] == list(range(1, len(payload["batches"]) + 1))
    assert payload["batches_omitted"] == 1000 - len(payload["batches"])
    assert len(payload["batches"]) > 20
    assert announcement.seqs == set(range(1, 1001))


@given(st.lists(st.tuples(CURSORS, CURSORS, ITEMS), min_size=1, max_size=120))
@settings(max_examples=200)
def test_the_payload_is_bounded_strict_json(parts: list[tuple[Any, Any, list[Any] | None]]) -> None:
    """However many batches, however long their cursors and items: a few KB, no NaN, and no batch uncounted."""
    batches = [batch(seq, items, low, high) for seq, (low, high, items) in enumerate(parts, start=1)]
    payload = Announcement(KEY, "s" * 36, batches).payload
    assert size(payload) <= A_FEW_KB
    entries = payload["batches"]
    assert len(entries) + payload["batches_omitted"] == len(batches)
    assert [each["id"] for each in entries] == [each.id for each in batches[: len(entries)]]
    for entry, each in zip(entries, batches, strict=False):
        if "items" in entry:
            assert dumps(decode(entry["items"])) == dumps(each.items)


def test_items_go_in_oldest_first_after_every_batch_has_its_line() -> None:
    """Lines come before items: a consumer can find every batch, and the oldest items save it the way."""
    payload = Announcement(KEY, "s", [batch(seq, ["x" * 3000]) for seq in range(1, 6)]).payload
    assert [("items" in each) for each in payload["batches"]] == [True, True, False, False, False]


def test_a_batch_without_items_does_not_keep_the_next_ones_out() -> None:
    """A batch that is too big to travel is named; small ones after it still bring their items."""
    payload = Announcement(KEY, "s", [batch(1), batch(2, ["a"])]).payload
    assert [each.get("items") for each in payload["batches"]] == [None, ["a"]]


def test_a_cursor_that_would_fill_the_event_is_left_out() -> None:
    """A long text as a cursor is replaced by its size; the log has it."""
    payload = Announcement(KEY, "s", [batch(1, low="short", high="x" * 5000)]).payload
    assert (payload["low"], payload["high"]) == ("short", {"$omitted": 5002})


@pytest.mark.parametrize("value", [math.nan, math.inf, Decimal("NaN"), b"\x00", "\ud800", AT])
def test_items_of_every_type_are_strict_json(value: Any) -> None:
    """Airflow stores the payload as JSON in any database: what JSON has not is written in the codec's form."""
    payload = Announcement(KEY, "s", [batch(1, [value], high=value)]).payload
    text = json.dumps(payload, allow_nan=False)
    assert repr(decode(json.loads(text)["batches"][0]["items"])) == repr([value])


def test_the_longest_name_still_travels() -> None:
    """An asset's name of 1,500 characters leaves room for the first batch at least."""
    key = WatermarkKey("\U0001f600" * 1500)
    payload = Announcement(key, "s", [batch(1, ["a"]), batch(2, ["b"])]).payload
    assert payload["asset"] == key.asset_name
    assert [each["seq"] for each in payload["batches"]][:1] == [1]
