"""Where a window of lateness begins, for every kind of value that has a distance."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_late import window_start

NOON = dt.datetime.fromisoformat("2026-01-31 12:00:00.5")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, NOON - dt.timedelta(seconds=90)),
        (NOON.replace(tzinfo=dt.UTC), (NOON - dt.timedelta(seconds=90)).replace(tzinfo=dt.UTC)),
        (dt.date(2026, 1, 31), dt.date(2026, 1, 30)),
        (100, 10),
        (100.5, 10.5),
        (Decimal("100.5"), Decimal("10.5")),
        ("2026-01-31 12:00:00.5", "2026-01-31 11:58:30"),
        ("2026-01-31T12:00:00Z", "2026-01-31T11:58:30"),
        (dt.datetime.min.replace(tzinfo=dt.UTC), None),
        (dt.date.min, None),
        ("0001-01-01 00:00:00", None),
        ("", None),
        (Decimal("1234567890123456789012345679600"), Decimal("1234567890123456789012345679510")),
    ],
)
def test_a_window_begins_so_far_back(value: Any, expected: Any) -> None:
    """Seconds before a time, whole days before a date, units below a number; None where no value is that early."""
    assert window_start(value, 90.0) == expected
