"""One real Airflow for the acceptance tests, with a shop database to watch and a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.deployment import AirflowDeployment
from tests.acceptance.shop import Shop

DAGS = Path(__file__).with_name("dags")

# By what the installed Airflow has, not by its number.
collect_ignore = [] if find_spec("airflow.state") else ["test_asset_state.py"]


@pytest.fixture(scope="session")
def shop(postgres_server) -> Iterator[Shop]:
    """A database with the tables that are watched."""
    url = postgres_server.create_database()
    shop = Shop(url)
    shop.execute("CREATE TABLE processed (asset text, id bigint, form text)")
    for table in ("bursts", "committed", "yielded"):
        shop.execute(f"CREATE TABLE {table} (id bigserial PRIMARY KEY, at timestamptz DEFAULT clock_timestamp())")
    shop.execute("CREATE TABLE latest (id bigserial PRIMARY KEY)")
    shop.execute(
        "CREATE TABLE odd (id bigserial PRIMARY KEY, at timestamptz, naive timestamp, bytes bytea, exact numeric,"
        " uid uuid, approximate double precision, long text, document jsonb)"
    )
    yield shop
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def points(tmp_path_factory) -> Path:
    """The folder in which triggers say how far they came."""
    return tmp_path_factory.mktemp("points")


@pytest.fixture(scope="session")
def airflow(postgres_server, shop, points) -> Iterator[AirflowDeployment]:
    """A deployment whose store is a PostgreSQL database, migrated by the command line."""
    metadata, store = postgres_server.create_database(), postgres_server.create_database()
    deployment = AirflowDeployment(
        metadata,
        dags=DAGS,
        environment={
            "AIRFLOW_CONN_SHOP": shop.url.replace("postgresql://", "postgres://"),
            "AIRFLOW_CONN_INCREMENTAL_STORE": store.replace("postgresql://", "postgres://"),
            "AIRFLOW__INCREMENTAL__STORE": "conn:incremental_store",
            "ACCEPTANCE_POINTS": str(points),
        },
    )
    deployment.program("airflow-incremental", "db", "upgrade")
    with deployment:
        yield deployment
    postgres_server.drop_database(metadata)
    postgres_server.drop_database(store)
