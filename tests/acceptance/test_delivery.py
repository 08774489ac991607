"""On a real Airflow: every row is processed once, whatever is killed between two steps of the order of things."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from airflow_provider_incremental.core.values import loads
from harness.deployment import AirflowDeployment
from harness.pacing import steadily
from tests.acceptance.shop import Shop

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

REDELIVER_AFTER = 15


def started(airflow: AirflowDeployment, dag_id: str, asset: str) -> None:
    """Let a DAG run, and wait until its watcher has polled."""
    airflow.unpause(dag_id)
    airflow.wait_for(f"the watcher of {asset} polls", lambda: last_poll(airflow, asset), 120)


def last_poll(airflow: AirflowDeployment, asset: str) -> str | None:
    """Return when the command line says that an asset's source was polled last; nothing before its first poll."""
    listed = json.loads(airflow.program("airflow-incremental", "list", "--output", "json"))
    return next((each["status"]["last_poll_at"] for each in listed if each["watermark"] == asset), None)


def all_processed(shop: Shop, asset: str, count: int) -> Callable[[], bool]:
    """Whether as many rows were processed; true as well when some were twice, for the test to say so."""
    return lambda: len(shop.processed(asset)) >= count


@pytest.mark.smoke
def test_bursts_at_one_active_run_are_all_processed_once(airflow: AirflowDeployment, shop: Shop) -> None:
    """60 rows in 6 bursts 0.3 s apart, one active run, then silence: all are processed within two redelivery intervals.

    Airflow alone strands most of them.
    """
    started(airflow, "consume_bursts", "bursts")
    for _ in steadily(times=6, seconds=0.3):
        shop.execute("INSERT INTO bursts SELECT FROM generate_series(1, 10)")
    airflow.wait_for("60 rows are processed", all_processed(shop, "bursts", 60), 2 * REDELIVER_AFTER)
    assert shop.processed("bursts") == list(range(1, 61))


@pytest.mark.parametrize("point", [pytest.param("committed", marks=pytest.mark.smoke), "yielded"])
def test_a_killed_triggerer_loses_and_repeats_nothing(
    airflow: AirflowDeployment, shop: Shop, points: Path, point: str
) -> None:
    """The whole process group of the triggerer is killed between commit and announce, and right after the yield."""
    started(airflow, f"consume_{point}", point)
    shop.execute(f"INSERT INTO {point} SELECT FROM generate_series(1, 20)")
    airflow.wait_for(f"the trigger is at its point {point}", (points / f"{point}.reached").exists, 60)
    airflow.kill_component("triggerer")
    assert shop.processed(point) == []
    airflow.start_component("triggerer")
    shop.execute(f"INSERT INTO {point} SELECT FROM generate_series(1, 20)")
    airflow.wait_for("40 rows are processed", all_processed(shop, point, 40), 120)
    assert shop.processed(point) == list(range(1, 41))


def test_odd_values_reach_the_consumer_unharmed(airflow: AirflowDeployment, shop: Shop) -> None:
    """Timestamps, bytes, Decimal, UUID, NaN and 10 MB neither end the triggerer nor lose a digit."""
    started(airflow, "consume_odd", "odd")
    aware = dt.datetime(2026, 1, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    values = (
        aware,
        aware.replace(tzinfo=None),
        b"\x00\xff",
        Decimal("123456789012345678901234567890.123456789"),
        str(uuid.UUID(int=2**128 - 1)),
        float("nan"),
        "ü" * 10_000_000,
        json.dumps({"a": [1, None]}),
    )
    shop.execute(
        "INSERT INTO odd (at, naive, bytes, exact, uid, approximate, long, document)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
        *values,
    )
    airflow.wait_for("the row is processed", all_processed(shop, "odd", 1), 120)
    row = loads(shop.execute("SELECT form FROM processed WHERE asset = 'odd'")[0][0])
    assert row["at"] == aware
    assert row["naive"] == aware.replace(tzinfo=None)
    assert row["bytes"] == b"\x00\xff"
    assert row["exact"] == values[3]
    assert row["uid"] == uuid.UUID(int=2**128 - 1)
    assert row["approximate"] != row["approximate"]
    assert row["long"] == values[6]
    assert json.loads(row["document"]) == {"a": [1, None]}
    shop.execute("INSERT INTO odd DEFAULT VALUES")
    airflow.wait_for("the triggerer goes on", all_processed(shop, "odd", 2), 60)


def test_latest_on_an_empty_source_survives_a_restart(airflow: AirflowDeployment, shop: Shop) -> None:
    """The baseline of an empty table is kept: what is inserted while the triggerer is down is new."""
    started(airflow, "consume_latest", "latest")
    airflow.kill_component("triggerer")
    shop.execute("INSERT INTO latest SELECT FROM generate_series(1, 3)")
    airflow.start_component("triggerer")
    airflow.wait_for("3 rows are processed", all_processed(shop, "latest", 3), 120)
    assert shop.processed("latest") == [1, 2, 3]
