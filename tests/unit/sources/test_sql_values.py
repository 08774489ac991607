"""Drivers' values: exactly as they are where there is a form for them, else as text."""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_values import dictionaries, plain


class Colour(enum.IntEnum):
    """A subclass of a type that has a form."""

    RED = 1


class Point:
    """A driver's own type."""

    def __str__(self) -> str:
        return "POINT(1 2)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (0.1, 0.1),
        ("ü", "ü"),
        (b"\x00", b"\x00"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (Decimal("1.10"), Decimal("1.10")),
        (uuid.UUID(int=1), uuid.UUID(int=1)),
        (dt.timedelta(microseconds=1), dt.timedelta(microseconds=1)),
        (Colour.RED, 1),
        ([1, (2, memoryview(b"c"))], [1, [2, b"c"]]),
        ({"b", "a"}, ["a", "b"]),
        ({"a": {1: Point()}}, {"a": {"1": "POINT(1 2)"}}),
        (Point(), "POINT(1 2)"),
        (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    ],
)
def test_a_value_keeps_its_type_or_becomes_text(value: Any, expected: Any) -> None:
    """Whatever a driver returns can be kept in the batch log, and comes back as expected."""
    kept = loads(dumps(plain(value)))
    assert kept == expected
    assert type(kept) is type(expected)


@pytest.mark.parametrize("names", [["a"], ["a b", "class", "x'\"\\"], [f"c{number}" for number in range(300)]])
def test_rows_become_dictionaries_by_their_columns(names: list[str]) -> None:
    """Whatever the names are, and however many."""
    rows = [tuple(range(start, start + len(names))) for start in (0, 7)]
    assert dictionaries(names)(rows) == [dict(zip(names, row, strict=True)) for row in rows]
    assert dictionaries(names)([]) == []
