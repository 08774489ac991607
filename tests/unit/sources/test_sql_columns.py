"""Cursor values have their column's type exactly, and a user's start is read as it, or refused."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_columns import (
    Column,
    Kind,
    UnfitValueError,
    fits,
    kind_of,
    looks_like_timestamp,
    out_of_order,
    parse,
)
from airflow_provider_incremental.sources.sql_engine_shape import _kind

NAIVE = dt.datetime.fromisoformat("2026-01-31 12:00:00.000001")
AWARE = NAIVE.replace(tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
ID = uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")
FITTING: dict[Kind, list[Any]] = {
    Kind.INTEGER: [5, -(2**63)],
    Kind.DECIMAL: [5, Decimal("5.10"), Decimal("Infinity")],
    Kind.FLOAT: [5, 5.5, float("inf")],
    Kind.TEXT: ["", "5"],
    Kind.UUID: [ID],
    Kind.XID: [0, 2**64 - 1],
    Kind.BYTES: [b"", b"5"],
    Kind.DATE: [dt.date(2026, 1, 31)],
    Kind.TIMESTAMP: [NAIVE],
    Kind.UTC_TIMESTAMP: [NAIVE],
    Kind.INSTANT: [AWARE, AWARE.astimezone(dt.UTC)],
    Kind.TEXT_TIMESTAMP: ["2026-01-31 12:00:00"],
}
UNFIT = [None, True, float("nan"), Decimal("NaN"), dt.time(12), (1,), bytearray(b"5")]
VALUES = [*(value for values in FITTING.values() for value in values), *UNFIT]
TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.INTEGER: (int,),
    Kind.DECIMAL: (int, Decimal),
    Kind.FLOAT: (int, float),
    Kind.TEXT: (str,),
    Kind.TEXT_TIMESTAMP: (str,),
    Kind.UUID: (uuid.UUID,),
    Kind.BYTES: (bytes,),
    Kind.XID: (int,),
    Kind.DATE: (dt.date,),
    Kind.TIMESTAMP: (dt.datetime,),
    Kind.UTC_TIMESTAMP: (dt.datetime,),
    Kind.INSTANT: (dt.datetime,),
}


@pytest.mark.parametrize("kind", Kind)
def test_only_values_of_the_columns_type_fit(kind: Kind) -> None:
    """No number as a text, no date as a timestamp, no time without zone as an instant; no bool, no NaN, no None."""
    assert all(fits(kind, value) for value in FITTING[kind])
    fitting = [repr(value) for value in VALUES if type(value) in TYPES[kind] and "nan" not in repr(value).lower()]
    if kind in (Kind.TIMESTAMP, Kind.UTC_TIMESTAMP, Kind.INSTANT):
        fitting = [repr(value) for value in FITTING[kind]]
    wrong = [value for value in VALUES if fits(kind, value) and repr(value) not in fitting]
    assert wrong == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, Kind.INTEGER),
        (Decimal("5.1"), Kind.DECIMAL),
        (5.1, Kind.FLOAT),
        ("5", Kind.TEXT),
        (ID, Kind.UUID),
        (b"5", Kind.BYTES),
        (dt.date(2026, 1, 31), Kind.DATE),
        (NAIVE, Kind.TIMESTAMP),
        (AWARE, Kind.INSTANT),
        (True, None),
        (None, None),
        (dt.timedelta(1), None),
        ([1], None),
    ],
)
def test_the_kind_of_a_column_shows_in_a_value(value: Any, kind: Kind | None) -> None:
    """A driver's value tells how its column is compared, or that it cannot serve in a cursor."""
    assert kind_of(value) is kind


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Kind.INTEGER, "41", 41),
        (Kind.INTEGER, -41, -41),
        (Kind.INTEGER, "9223372036854775807", 2**63 - 1),
        (Kind.DECIMAL, "41.50", Decimal("41.50")),
        (Kind.DECIMAL, 0.1, Decimal("0.1")),
        (Kind.FLOAT, "41.5", 41.5),
        (Kind.FLOAT, "9007199254740993", 9007199254740993),
        (Kind.TEXT, "41", "41"),
        (Kind.UUID, str(ID), ID),
        (Kind.BYTES, "\\x00ff", b"\x00\xff"),
        (Kind.BYTES, "00FF", b"\x00\xff"),
        (Kind.XID, "41", 41),
        (Kind.DATE, "2026-01-31", dt.date(2026, 1, 31)),
        (Kind.TIMESTAMP, "2026-01-31T12:00:00.000001", NAIVE),
        (Kind.TIMESTAMP, "2026-01-31 12:00:00.000001", NAIVE),
        (Kind.TIMESTAMP, "2026-01-31", NAIVE.replace(hour=0, microsecond=0)),
        (Kind.TIMESTAMP, dt.date(2026, 1, 31), NAIVE.replace(hour=0, microsecond=0)),
        (Kind.UTC_TIMESTAMP, "2026-01-31T12:00:00.000001", NAIVE),
        (Kind.UTC_TIMESTAMP, "2026-01-31T17:30:00.000001+05:30", NAIVE),
        (Kind.INSTANT, "2026-01-31T12:00:00.000001+05:30", AWARE),
        (Kind.INSTANT, "2026-01-31T06:30:00.000001Z", AWARE),
        (Kind.TEXT_TIMESTAMP, "2026-01-31T12:00:00", "2026-01-31 12:00:00"),
        (Kind.TEXT_TIMESTAMP, dt.date(2026, 1, 31), "2026-01-31"),
    ],
)
def test_a_start_is_read_in_the_columns_type(kind: Kind, given: Any, expected: Any) -> None:
    """Numbers and texts that a user writes become the column's own values, to the last digit."""
    parsed = parse(Column(name="c", kind=kind, sample="2025-01-01 00:00:00"), given)
    assert parsed == expected
    assert type(parsed) is type(expected)


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (Kind.INTEGER, "4.5", "expected a whole number, as in 41"),
        (Kind.INTEGER, 4.5, "expected a whole number"),
        (Kind.INTEGER, True, "expected a whole number"),
        (Kind.INTEGER, None, "expected a whole number"),
        (Kind.INTEGER, dt.date(2026, 1, 31), "expected a whole number"),
        (Kind.DECIMAL, "x", "expected a decimal number, as in '41.50'"),
        (Kind.FLOAT, "x", "expected a number"),
        (Kind.TEXT, 5, "expected a text"),
        (Kind.UUID, "x", "expected a UUID"),
        (Kind.BYTES, "xyz", "expected bytes"),
        (Kind.DATE, "2026-01-31T12:00", "expected a date"),
        (Kind.DATE, NAIVE, "expected a date"),
        (Kind.TIMESTAMP, "yesterday", "expected a timestamp without zone, as in '2026-01-31T12:00:00'"),
        (Kind.TIMESTAMP, 1769860800, "expected a timestamp"),
        (Kind.TIMESTAMP, "2026-01-31T12:00:00Z", "the column has no zone"),
        (Kind.TIMESTAMP, AWARE, "the column has no zone"),
        (Kind.INSTANT, "2026-01-31T12:00:00", "say which one is meant"),
        (Kind.INSTANT, NAIVE, "say which one is meant"),
        (Kind.TEXT_TIMESTAMP, 5, "written as the column's values are"),
        (None, "x", "its type shows with the first row"),
    ],
)
def test_a_start_that_is_no_value_of_the_column_is_refused(kind: Kind | None, given: Any, told: str) -> None:
    """The message says what the column holds, with an example."""
    with pytest.raises(UnfitValueError, match=told):
        parse(Column(name="c", kind=kind), given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31 12:00:00", True),
        ("2026-01-31T12:00:00.123Z", True),
        ("2026-01-31 12:00", True),
        ("2026-01-31 12:00:00+00:00", True),
        ("2026-01-31 12:00:00+05:30", False),
        ("2026-01-31", False),
        ("31.01.2026 12:00", False),
        (5, False),
    ],
)
def test_a_text_is_a_timestamp_when_its_order_is_that_of_time(text: Any, expected: bool) -> None:
    """Only ISO 8601 in one zone sorts as time does."""
    assert looks_like_timestamp(text) is expected


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Kind.FLOAT, float("nan"), "where=\"c <> 'NaN'\""),
        (Kind.DECIMAL, Decimal("NaN"), "it is not a number"),
        (Kind.DATE, "2026-00-00", "no calendar has that date.*where=\"c > '1000-01-01'\""),
        (Kind.UTC_TIMESTAMP, "0000-00-00 00:00:00", "no calendar has that date"),
        (Kind.TIMESTAMP, None, "the driver has no date for it, as for a zero date"),
        (Kind.TIMESTAMP, 5, None),
        (Kind.TEXT, "0000-00-00", None),
        (Kind.FLOAT, float("inf"), None),
    ],
)
def test_a_value_without_a_place_is_told_from_one_of_another_type(kind: Kind, value: Any, told: str | None) -> None:
    """What a column of the type may hold, and yet has no place in its order, is called what it is."""
    why = out_of_order(Column(name="c", kind=kind), value)
    assert (why is None) if told is None else re.search(told, why or "")


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        ("0000-00-00", 10, Kind.DATE),
        ("0000-00-00 00:00:00", 12, Kind.TIMESTAMP),
        (None, 7, Kind.UTC_TIMESTAMP),
        (NAIVE, 7, Kind.UTC_TIMESTAMP),
        ("0000-00-00", 253, Kind.TEXT),
        (None, 253, None),
    ],
)
def test_a_column_of_dates_is_known_by_a_zero_date_as_well(value: Any, code: int, expected: Kind | None) -> None:
    """MySQL's drivers return a text or None for it, and say of which type the column is."""
    assert _kind("mysql", value, code) is expected


@pytest.mark.parametrize(("value", "expected"), [(float("nan"), Kind.FLOAT), (Decimal("NaN"), Kind.DECIMAL)])
def test_a_column_of_numbers_is_known_by_nan_as_well(value: Any, expected: Kind) -> None:
    """The row is refused when it is found, and not the column."""
    assert kind_of(value) is expected
