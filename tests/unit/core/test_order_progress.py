"""A source that does not move on, or moves back, is stopped before it floods the log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Found, require_progress
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing.fakes import ListSource
from tests.miniature import Deployment

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Stuck(ListSource):
    """Finds the same item above every cursor."""

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        return Found(high=low, items=[{"name": "again"}])


async def test_items_that_the_cursor_does_not_pass_are_refused(deployment: Deployment) -> None:
    """They would come with every poll; the status names the class and what to return."""
    deployment.source = Stuck()
    deployment.trigger()
    await deployment.run_for(1000)
    watermark = await deployment.watermark()
    assert watermark.last_seq == 0
    assert "Stuck.poll() returned 1 items, but low=None, high=None" in (watermark.status.last_error or "")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (9, 8),
        (9, None),
        ((9, "b"), (8, "c")),
        ((9, 3), (9, 2)),
        (Decimal("1.10"), Decimal("1.09")),
        (NOON, NOON - dt.timedelta(microseconds=1)),
        (dt.date(2026, 1, 2), dt.date(2026, 1, 1)),
    ],
)
def test_a_cursor_that_goes_back_is_refused(low: Any, high: Any) -> None:
    """Whether items come with it or not."""
    for found in (Found(high=high), Found(high=high, items=[1])):
        with pytest.raises(SourceError, match="a watermark never moves back"):
            require_progress(ListSource(), low, found)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (None, 0),
        (8, 9),
        ((9, "b"), (9, "a")),  # only the database knows how it sorts texts
        ("b", "a"),
        (b"b", b"a"),
        ((8, "z"), (9, "a")),
        (float("nan"), 1.0),
        (NOON, NOON.replace(tzinfo=None)),
        (9, 9.5),
        (9, Decimal(8)),  # another type: the source's affair
    ],
)
def test_what_may_be_ahead_is_taken(low: Any, high: Any) -> None:
    """Only what is certainly behind is refused."""
    require_progress(ListSource(), low, Found(high=high, items=[1]))


def test_late_items_do_not_move_the_cursor() -> None:
    """Inside a lateness window that is how it is."""
    require_progress(ListSource(lateness=1), 5, Found(high=5, items=[1], fingerprints=[bytes(16)]))


def test_removals_do_not_move_the_cursor() -> None:
    """Nothing new was found."""
    require_progress(ListSource(), 5, Found(high=5, removed=[1], remember={"known": None}))
