"""Where a chaos run takes place: a real Airflow, its servers, and networks between them that can be broken."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2

from harness import homes, postgres_server, s3_server
from harness.databases import DatabaseServer
from harness.deployment import AirflowDeployment
from harness.processes import Service
from harness.s3_server import S3Server
from harness.tcp_proxy import Network, network_to

__all__ = ["ASSETS", "BUCKET", "CONSUMERS", "CONTROL", "Stage", "staged"]

BUCKET = "incoming"
ASSETS = ("files", "orders", "payments")
CONSUMERS = {"slow": ASSETS, "failing": ASSETS, "mapped": ("payments",)}
CONTROL = "control"

_DAGS = Path(__file__).with_name("chaos_dags")
# What was committed or stored must survive the kill of its server, or the harness would lose what the package did not.
_DURABLE = {"synchronous_commit": "on", "max_connections": "100"}
_TABLES = """
    CREATE TABLE public.orders (
        id bigserial PRIMARY KEY,
        revision bigint NOT NULL DEFAULT 0,
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX orders_cursor ON public.orders (updated_at, id);
    CREATE TABLE public.payments (id bigserial PRIMARY KEY, amount bigint NOT NULL);
"""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A server that can be ended and started again, and the network that Airflow reaches it by."""

    service: Service
    network: Network


@dataclass(kw_only=True)
class Stage:
    """Everything that a chaos run has: Airflow, and the three servers that faults hit.

    :ivar store_url: and :ivar shop_url: addresses that no broken network stands between.
    """

    airflow: AirflowDeployment
    backends: dict[str, Backend]
    store_url: str
    shop_url: str
    s3: S3Server
    journal: Path
    edits: int = field(default=0)

    @property
    def triggerers(self) -> list[str]:
        """The components that are triggerers."""
        return [name for name in self.airflow.components if name.startswith("triggerer")]

    def edit_dags(self) -> None:
        """Change the arguments of every trigger, in one step, as a deployment of new DAG files does."""
        self.edits += 1
        file = self.airflow.dags / "chaos_consumers.py"
        new = file.with_suffix(".new")
        new.write_text(re.sub(r"^EDITED = \d+$", f"EDITED = {self.edits}", file.read_text(), flags=re.MULTILINE))
        new.replace(file)

    def query(self, url: str, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of one statement."""
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()


@contextmanager
def staged(*, triggerers: int, keep: Path | None = None, through_api: bool = False) -> Iterator[Stage]:
    """Start everything, and end it with the context.

    :param through_api: let the api-server alone know the store's database, and everybody else reach it there.
    :param keep: where to leave the logs and the journal.
    """
    with ExitStack() as stack:
        home = stack.enter_context(homes.home("chaos"))
        metadata, _ = stack.enter_context(postgres_server.restartable())
        backends: dict[str, Backend] = {}

        def database(name: str) -> tuple[DatabaseServer, DatabaseServer]:
            server, service = stack.enter_context(postgres_server.restartable(_DURABLE))
            network = stack.enter_context(network_to(server.host, server.port))
            backends[name] = Backend(service=service, network=network)
            return server, replace(server, port=network.port)

        store, store_behind = database("store")
        source, source_behind = database("source")
        s3, service = stack.enter_context(s3_server.restartable())
        address = urlsplit(s3.endpoint)
        network = stack.enter_context(network_to(str(address.hostname), int(address.port or 0)))
        backends["s3"] = Backend(service=service, network=network)
        s3_behind = replace(s3, endpoint=f"http://127.0.0.1:{network.port}")

        _prepare(source, store, s3)
        behind = _connection(store_behind, "incremental")
        airflow = AirflowDeployment(
            metadata.create_database("airflow"),
            triggerers=triggerers,
            of_component={"api-server": {"AIRFLOW__INCREMENTAL__API_STORE": behind}} if through_api else {},
            environment=_settings(home)
            | {
                "AIRFLOW_CONN_AWS_DEFAULT": s3_behind.airflow_connection(),
                "AIRFLOW_CONN_SHOP": _connection(source_behind, "shop"),
                "AIRFLOW_CONN_INCREMENTAL_STORE": behind,
            },
        )
        shutil.copytree(_DAGS, airflow.dags, dirs_exist_ok=True)
        airflow.program("airflow-incremental", "db", "upgrade")
        if through_api:
            airflow.env["AIRFLOW_CONN_INCREMENTAL_STORE"] = _api_of(airflow)
        stack.enter_context(airflow)
        stack.callback(_leave, keep, airflow.home, home)  # before the home is removed
        yield Stage(
            airflow=airflow,
            backends=backends,
            store_url=store.url_of("incremental"),
            shop_url=source.url_of("shop"),
            s3=s3,
            journal=home / "journal.jsonl",
        )


def _prepare(source: DatabaseServer, store: DatabaseServer, s3: S3Server) -> None:
    store.create_database("incremental")
    with closing(psycopg2.connect(source.create_database("shop"))) as connection, connection:
        connection.cursor().execute(_TABLES)
    with closing(s3.client()) as client:
        client.create_bucket(Bucket=BUCKET)


def _settings(home: Path) -> dict[str, str]:
    """Return what Airflow and the DAGs are told, whatever the addresses of the servers are."""
    return {
        "AIRFLOW__INCREMENTAL__STORE": "conn:incremental_store",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__PARALLELISM": "6",
        "CHAOS_JOURNAL": str(home / "journal.jsonl"),
        "CHAOS_NAIVE_WATERMARK": str(home / "naive-watermark"),
    }


def _connection(server: DatabaseServer, database: str) -> str:
    return server.url_of(database).replace("postgresql://", "postgres://")


def _api_of(airflow: AirflowDeployment) -> str:
    parts = {"conn_type": "http", "schema": "http", "host": "127.0.0.1", "port": airflow.ports["api"]}
    return json.dumps(parts | {"login": "chaos", "password": "chaos"})


def _leave(keep: Path | None, airflow: Path, home: Path) -> None:
    """Copy what explains a run: the components' logs and the journal."""
    if keep is None:
        return
    keep.mkdir(parents=True, exist_ok=True)
    for file in [*airflow.glob("*.log"), *home.glob("*.jsonl")]:
        shutil.copy(file, keep)
    if (airflow / "logs").exists():
        shutil.copytree(airflow / "logs", keep / "logs", dirs_exist_ok=True)
