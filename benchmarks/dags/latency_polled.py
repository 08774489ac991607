"""A DAG that is started by rows whose trigger polls for them."""

from __future__ import annotations

import os

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_incremental import SQLIncrementalQueryTrigger, incremental_asset

polled = incremental_asset(
    "polled",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    table="polled",
    cursor=["id"],
    poll_interval=int(os.environ.get("INCREMENTAL_BENCH_POLL_INTERVAL", "5")),
)

with DAG(dag_id="polled", schedule=[polled], catchup=False, max_active_runs=16):
    EmptyOperator(task_id="nothing")
