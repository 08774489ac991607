"""What a SQL source says of its window, also of positions that somebody set by hand."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_rows import SqlRowSource


@pytest.mark.parametrize(
    ("high", "low", "inside"),
    [
        ((95, 1), (100, 7), True),
        ((90, 1), (100, 7), True),
        ((89, 9), (100, 7), False),
        ((89, 9), None, False),
        ((1, 1), 100, True),
        ((1, 1), [100], True),
        (5, (100, 7), True),
        (("2026", 1), (100, 7), True),
    ],
)
def test_only_what_is_certainly_behind_is_outside(high: Any, low: Any, inside: bool) -> None:
    """A position by hand may be anything in the column's type: what was delivered stays known until it is read."""
    selection = check_sql_arguments(table="orders", cursor=["number", "id"], lateness=10)
    reader: Any = None  # nothing is read
    source = SqlRowSource(reader=reader, conn_id="shop", selection=selection)
    assert source.in_window(high, low) is inside
