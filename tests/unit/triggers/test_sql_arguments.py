"""Arguments of ``SQLIncrementalQueryTrigger`` that are mistaken for others are refused where the DAG is parsed."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_incremental import S3KeyIncrementalTrigger, SQLIncrementalQueryTrigger
from airflow_provider_incremental.core.errors import ConfigurationError

GIVEN: dict[str, Any] = {"asset_name": "orders", "conn_id": "shop", "table": "orders", "cursor": ["at", "id"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"max_items": 5}, "max_items=5 has another name here: max_rows"),
        ({"start": {"at": 1}}, r"start=\{'at': 1\} cannot be used; give a value for each of \['at', 'id'\]"),
        ({"start": ["2026-01-01", 1, 2]}, "start=.* has more values than the cursor has columns"),
    ],
)
def test_a_mistake_is_told_with_the_remedy(arguments: dict[str, Any], told: str) -> None:
    """Before anything is read."""
    with pytest.raises(ConfigurationError, match=told):
        SQLIncrementalQueryTrigger(**GIVEN, **arguments)


@pytest.mark.parametrize("start", ["earliest", "2026-01-01", ["2026-01-01"], ["2026-01-01", 5], 7])
def test_a_start_may_have_fewer_values_than_the_cursor_has_columns(start: Any) -> None:
    """What their types are is known to the database alone."""
    assert SQLIncrementalQueryTrigger(**GIVEN, start=start).start == start


@pytest.mark.parametrize(
    ("trigger", "arguments", "told"),
    [
        (SQLIncrementalQueryTrigger, GIVEN, "has no argument 'pol_interval'; did you mean poll_interval"),
        (S3KeyIncrementalTrigger, {"asset_name": "a", "bucket": "b"}, "did you mean poll_interval"),
    ],
)
def test_an_argument_that_nobody_has_is_told_by_the_trigger_that_was_given_it(
    trigger: Any, arguments: dict[str, Any], told: str
) -> None:
    """Not by the class that its options end up in."""
    with pytest.raises(TypeError, match=f"^{trigger.__name__} .*{told}"):
        trigger(**arguments, pol_interval=5)


def test_where_nothing_is_alike_all_are_named() -> None:
    """Those of the options, too."""
    with pytest.raises(TypeError, match=r"has no argument 'zzz'; it has .*conn_id, .*retention"):
        SQLIncrementalQueryTrigger(**GIVEN, zzz=5)
