"""The time of an object storage, from the dates of its answers."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_incremental.stores.objects.server_clock import ServerClock


@pytest.mark.parametrize(("date", "shift"), [(0, 0), (90, 90), (-90, -89)])
def test_the_services_clock_counts(date: int, shift: int):
    """A clock that fits into the dates of the answers is left alone; another one is moved as far as they show."""
    clock = ServerClock()
    began = clock.local().replace(microsecond=0)
    written = (began + dt.timedelta(seconds=date)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    clock.learn({"ResponseMetadata": {"HTTPHeaders": {"date": written}}}, began)
    assert abs((clock.now() - clock.local()).total_seconds() - shift) <= 1.1
    clock.learn({"ResponseMetadata": {"HTTPHeaders": {"date": "yesterday"}}}, began)
    clock.learn(None, began)
    assert abs((clock.now() - clock.local()).total_seconds() - shift) <= 1.1
