"""From the insert of a row to the DAG run in the queue, on a real Airflow, with ``listen`` and without.

Each row waits for the run of the one before, and then for a while that is no multiple of anything. The time is taken
before the insert, and from Airflow's own ``queued_at``; both tables are written at the same time.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import psycopg2

from airflow_provider_incremental.sources.sql_notify import notify_ddl
from benchmarks import report
from harness import servers
from harness.deployment import AirflowDeployment

_DAGS = Path(__file__).with_name("dags")
_POLL_INTERVAL = 5
_ROWS = {"heard": 50, "polled": 25}
_PATIENCE = 60.0


@dataclass
class Table:
    """One table, the DAG of the same name, and how long each row took from the one to the other."""

    name: str
    shop: str
    metadata: str
    seconds: list[float] = field(default_factory=list)
    failure: BaseException | None = None

    def warm_up(self) -> None:
        """Insert a row, and wait for its run: then everything has started. Its time does not count."""
        self._row(patience=240)

    def measure(self, rows: int) -> None:
        """Insert rows one after the other and time each."""
        try:
            pace = random.Random(self.name)
            for _ in range(rows):
                time.sleep(pace.uniform(0.5, 2.0))
                self.seconds.append(self._row(patience=_PATIENCE))
        except BaseException as error:
            self.failure = error

    def _row(self, patience: float) -> float:
        before = len(self._queued())
        began = dt.datetime.now(dt.UTC)
        _run(self.shop, f"INSERT INTO {self.name} DEFAULT VALUES")
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            queued = self._queued()
            if len(queued) > before:
                return (queued[-1] - began).total_seconds()
            time.sleep(0.1)
        msg = f"{self.name}: no DAG run within {patience:.0f} s"
        raise TimeoutError(msg)

    def _queued(self) -> list[dt.datetime]:
        return [
            row[0]
            for row in _run(self.metadata, "SELECT queued_at FROM dag_run WHERE dag_id = %s ORDER BY id", self.name)
        ]


def main() -> None:
    """Run Airflow, write rows, print the table and write the figures."""
    file = report.json_file(__doc__ or "")
    with servers.postgres() as server:
        shop, store, metadata = (server.create_database() for _ in range(3))
        for name in _ROWS:
            _run(shop, f"CREATE TABLE {name} (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")
        _run(shop, notify_ddl("heard", "heard"))
        environment = {
            "AIRFLOW_CONN_SHOP": _as_connection(shop),
            "AIRFLOW_CONN_INCREMENTAL_STORE": _as_connection(store),
            "AIRFLOW__INCREMENTAL__STORE": "conn:incremental_store",
            "INCREMENTAL_BENCH_POLL_INTERVAL": str(_POLL_INTERVAL),
        }
        deployment = AirflowDeployment(metadata, environment=environment)
        for name in _ROWS:
            file_name = f"latency_{name}.py"
            (deployment.dags / file_name).write_bytes((_DAGS / file_name).read_bytes())
        deployment.program("airflow-incremental", "db", "upgrade")
        tables = [Table(name, shop, metadata) for name in _ROWS]
        with deployment:
            _measure(deployment, tables)
    figures = _figures(*tables)
    print(report.table(["figure", "value"], list(figures.items())))
    report.write("latency", figures, file)


def _measure(airflow: AirflowDeployment, tables: list[Table]) -> None:
    for table in tables:
        airflow.unpause(table.name)
    for table in tables:
        table.warm_up()
    threads = [threading.Thread(target=table.measure, args=(_ROWS[table.name],)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for table in tables:
        if table.failure is not None:
            raise table.failure


def _figures(heard: Table, polled: Table) -> dict[str, float]:
    return {
        "listen_p50_s": median(heard.seconds),
        "listen_p95_s": _p95(heard.seconds),
        "listen_rows": len(heard.seconds),
        "poll_p50_s": median(polled.seconds),
        "poll_p95_s": _p95(polled.seconds),
        "poll_rows": len(polled.seconds),
        "poll_interval_s": _POLL_INTERVAL,
    }


def _p95(seconds: list[float]) -> float:
    return quantiles(seconds, n=20, method="inclusive")[-1]


def _as_connection(url: str) -> str:
    return url.replace("postgresql://", "postgres://")


def _run(url: str, statement: str, *parameters: str) -> list[tuple[dt.datetime]]:
    """Run a statement in a transaction of its own and return its rows, if it has any."""
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


if __name__ == "__main__":
    main()
