"""The DAGs of the acceptance tests: each notes what it processed in a table, so that losses and repeats show."""

from __future__ import annotations

import time
from typing import Any

from acceptance_triggers import StopsAfterCommit, StopsAfterYield
from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import dag, task

from airflow_provider_incremental import SQLIncrementalQueryTrigger, consume, incremental_asset
from airflow_provider_incremental.core.values import dumps

PACE = {"conn_id": "shop", "poll_interval": 1, "redeliver_after": 15, "settle": 0}

bursts = incremental_asset("bursts", SQLIncrementalQueryTrigger, table="public.bursts", cursor=["at", "id"], **PACE)
committed = incremental_asset("committed", StopsAfterCommit, table="public.committed", cursor=["at", "id"], **PACE)
yielded = incremental_asset("yielded", StopsAfterYield, table="public.yielded", cursor=["at", "id"], **PACE)
odd = incremental_asset("odd", SQLIncrementalQueryTrigger, table="public.odd", cursor=["id"], **PACE)
latest = incremental_asset(
    "latest", SQLIncrementalQueryTrigger, table="public.latest", cursor=["id"], start="latest", **PACE
)


def note(asset: str, rows: list[dict[str, Any]]) -> None:
    """Note each row as processed, with all its values as they arrived."""
    PostgresHook("shop").insert_rows(
        "processed", [(asset, row["id"], dumps(row)) for row in rows], ["asset", "id", "form"]
    )


def consumer(asset: Any, seconds: float) -> None:
    """Make the DAG that processes an asset, one run at a time."""

    @dag(dag_id=f"consume_{asset.name}", schedule=[asset], catchup=False, max_active_runs=1)
    def consuming():
        @task
        def process():
            for batch in consume(asset):
                note(asset.name, batch.items)
                time.sleep(seconds)

        process()

    consuming()


consumer(bursts, 1)
consumer(committed, 0)
consumer(yielded, 0)
consumer(odd, 0)
consumer(latest, 0)
