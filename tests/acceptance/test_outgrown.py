"""On the day when the default file is outgrown: a real Airflow moves to a database, and no row is lost or repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.deployment import AirflowDeployment
from harness.servers import DatabaseServer
from tests.acceptance.conftest import DAGS
from tests.acceptance.shop import Shop

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

DAG = "consume_bursts"


@pytest.fixture
def shop(postgres_server: DatabaseServer) -> Iterator[Shop]:
    """A database with the one table that this test watches."""
    url = postgres_server.create_database()
    shop = Shop(url)
    shop.execute("CREATE TABLE processed (asset text, id bigint, form text)")
    shop.execute("CREATE TABLE bursts (id bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
    yield shop
    postgres_server.drop_database(url)


@pytest.fixture
def store(postgres_server: DatabaseServer) -> Iterator[str]:
    """The database that the watermarks move to."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def airflow(postgres_server: DatabaseServer, shop: Shop, store: str, tmp_path: Path) -> Iterator[AirflowDeployment]:
    """An Airflow with the default store, and a connection to the database that comes after it."""
    metadata = postgres_server.create_database()
    environment = {
        "AIRFLOW_CONN_SHOP": shop.url.replace("postgresql://", "postgres://"),
        "AIRFLOW_CONN_INCREMENTAL_STORE": store.replace("postgresql://", "postgres://"),
        "ACCEPTANCE_POINTS": str(tmp_path),
    }
    with AirflowDeployment(metadata, dags=DAGS, environment=environment) as deployment:
        yield deployment
    postgres_server.drop_database(metadata)


def test_a_store_that_is_outgrown(airflow: AirflowDeployment, shop: Shop) -> None:
    """Runs that events of the old store start find their batches in the new one; what was finished stays finished."""
    airflow.unpause(DAG)
    insert(shop, 10)
    airflow.wait_for("10 rows are processed", lambda: len(shop.processed("bursts")) >= 10, 120)
    airflow.stop_component("scheduler")
    insert(shop, 10)
    airflow.wait_for("events wait for a run", lambda: batches(airflow) > 1 and events(airflow) > 1, 60)
    airflow.stop_component("triggerer")
    airflow.program("airflow-incremental", "db", "upgrade", "--store", "conn:incremental_store")
    said = airflow.program("airflow-incremental", "copy", "--to", "conn:incremental_store", "--force")
    assert "1 copied." in said
    airflow.env["AIRFLOW__INCREMENTAL__STORE"] = "conn:incremental_store"
    (airflow.home / "incremental.db").unlink()
    for component in ("scheduler", "triggerer"):
        airflow.start_component(component)
    insert(shop, 10)
    airflow.wait_for("30 rows are processed", lambda: len(shop.processed("bursts")) >= 30, 180)
    assert shop.processed("bursts") == list(range(1, 31))
    airflow.wait_for("every run has ended", lambda: len(airflow.finished_runs(DAG)) == len(airflow.dag_runs(DAG)), 60)
    assert {run["state"] for run in airflow.finished_runs(DAG)} == {"success"}
    assert not (airflow.home / "incremental.db").exists()


def insert(shop: Shop, rows: int) -> None:
    """Let rows appear in the table."""
    shop.execute(f"INSERT INTO bursts SELECT FROM generate_series(1, {rows})")


def batches(airflow: AirflowDeployment) -> int:
    """Return how many batches were committed."""
    (listed,) = json.loads(airflow.program("airflow-incremental", "list", "--output", "json"))
    return int(listed["batches"])


def events(airflow: AirflowDeployment) -> int:
    """Return how many events Airflow has stored."""
    return len(airflow.asset_events("bursts"))
