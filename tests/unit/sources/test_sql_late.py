"""Where a window of lateness begins, for every kind of value that has a distance; and what is the same row in it."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.sources.sql_late import mark_of, window_start

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


BERLIN = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    "alike",
    [
        [1, 1.0, Decimal(1), Decimal("1.00"), Decimal("1E+0")],
        [0, -0.0, Decimal("-0.00")],
        [100, Decimal("1E+2"), Decimal("100.0")],
        [Decimal("1.5"), Decimal("1.50")],
        [2**70, Decimal(2**70), Decimal(f"{2**70}.000")],
        [Decimal("1E+5000"), Decimal("10E+4999")],
        [dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), dt.datetime(2026, 1, 31, 14, tzinfo=BERLIN)],
    ],
)
def test_a_fingerprint_is_of_the_value_and_not_of_its_notation(alike: list[Any]) -> None:
    """Another scale, another numeric type or another session zone leaves a row the one that it was."""
    assert len({mark_of((value, "a")) for value in alike}) == 1


@pytest.mark.parametrize(
    "value",
    [
        *(1, -5, 2**70, 0.5, Decimal("1.5"), "1.00", b"1", uuid.UUID(int=1), float("inf"), Decimal("Infinity")),
        *(dt.date(2026, 1, 31), NOON, NOON.replace(tzinfo=dt.UTC), dt.datetime.min.replace(tzinfo=BERLIN)),
    ],
)
def test_a_fingerprint_of_what_has_one_notation_stays_what_it_always_was(value: Any) -> None:
    """What earlier releases have written of such values is found again."""
    digest = hashlib.blake2b(dumps((value, 7)).encode(), digest_size=FINGERPRINT_BYTES).digest()
    assert mark_of((value, 7)) == digest
