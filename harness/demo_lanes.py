"""The ways that data takes through the demo, one for each example DAG: what is put in, and how it is known again.

A DAG prints what it loads. Its task logs, not the store's own word, say what was processed and how often.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg2

from harness.deployment import AirflowDeployment

__all__ = ["BUCKET", "SHOP_TABLES", "Lane", "lanes"]

BUCKET = "incoming"
PREFIX = "in/"
SHOP_TABLES = """
    CREATE TABLE public.orders (
        id bigserial PRIMARY KEY,
        item text NOT NULL,
        amount numeric(12, 2) NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX orders_cursor ON public.orders (updated_at, id);
    CREATE TABLE public.payments (
        id bigserial PRIMARY KEY,
        amount numeric(12, 2) NOT NULL,
        paid_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE TABLE public.shipments (
        id bigserial PRIMARY KEY,
        parcel text NOT NULL,
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX shipments_cursor ON public.shipments (updated_at, id);
    CREATE TABLE public.shipments_archive (LIKE public.shipments INCLUDING ALL);
"""


@dataclass(kw_only=True)
class Lane:
    """One asset, the DAG that it starts, and what was put in for it.

    :param insert: puts in the thing of this number, 1 for the first.
    :param name: what the DAG prints for the thing of this number.
    :param loaded: finds such names in what the DAG prints after the word "loading".
    """

    asset: str
    dag_id: str
    things: str
    insert: Callable[[int], None]
    name: Callable[[int], str]
    loaded: str
    put: int = 0
    seen_runs: set[str] = field(default_factory=set)
    loads: Counter[str] = field(default_factory=Counter)

    def put_in(self, count: int) -> None:
        """Put in this many new things."""
        for _ in range(count):
            self.put += 1
            self.insert(self.put)

    def is_processed(self, airflow: AirflowDeployment) -> bool:
        """Whether everything that was put in has been loaded; reads the logs of the runs finished since last asked."""
        for run in airflow.finished_runs(self.dag_id):
            if run["dag_run_id"] not in self.seen_runs:
                self.seen_runs.add(run["dag_run_id"])
                self._read_run(airflow, run["dag_run_id"])
        return not self.missing()

    def _read_run(self, airflow: AirflowDeployment, run_id: str) -> None:
        for line in airflow.task_lines(self.dag_id, run_id):
            _, found, names = line.partition("loading ")
            if found:
                self.loads.update(re.findall(self.loaded, names))

    def missing(self) -> list[str]:
        """Return what was put in and not loaded."""
        return [name for name in map(self.name, range(1, self.put + 1)) if not self.loads[name]]

    def repeated(self) -> list[str]:
        """Return what was loaded more than once."""
        return [name for name, times in self.loads.items() if times > 1]


def lanes(*, s3_client: Any, shop: str, folder: Path) -> list[Lane]:
    """Return the lanes of all example DAGs.

    :param shop: address of the database with the tables that the DAGs read.
    :param folder: the folder that the example of an own source watches.
    """
    return [
        Lane(
            asset="incoming_files",
            dag_id="example_s3_key_incremental",
            things=f"objects in s3://{BUCKET}/{PREFIX}",
            insert=partial(_put_object, s3_client),
            name="file-{:03}.csv".format,
            loaded=r"file-\d+\.csv",
        ),
        Lane(
            asset="orders",
            dag_id="example_sql_incremental_query",
            things="rows in public.orders",
            insert=partial(_insert, shop, "INSERT INTO public.orders (item, amount) VALUES ('item-{0:03}', {0}.50)"),
            name="item-{:03}".format,
            loaded=r"item-\d+",
        ),
        Lane(
            asset="payments",
            dag_id="example_mapped_batches",
            things="rows in public.payments",
            insert=partial(_insert, shop, "INSERT INTO public.payments (amount) VALUES ({0}.25)"),
            name=str,
            loaded=r"\d+",
        ),
        Lane(
            asset="shipments",
            dag_id="example_sql_range_copy",
            things="rows in public.shipments",
            insert=partial(_insert, shop, "INSERT INTO public.shipments (parcel) VALUES ('parcel-{0:03}')"),
            name="parcel-{:03}".format,
            loaded=r"parcel-\d+",
        ),
        Lane(
            asset="reports",
            dag_id="example_custom_source",
            things=f"files in {folder}",
            insert=partial(_write_file, folder),
            name="report-{:03}.csv".format,
            loaded=r"report-\d+\.csv",
        ),
    ]


def _put_object(client: Any, number: int) -> None:
    client.put_object(Bucket=BUCKET, Key=f"{PREFIX}file-{number:03}.csv", Body=b"a,b\n1,2\n")


def _insert(url: str, statement: str, number: int) -> None:
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement.format(number))


def _write_file(folder: Path, number: int) -> None:
    (folder / f"report-{number:03}.csv").write_text("a,b\n1,2\n")
