"""A DAG that is started by rows whose trigger hears of them."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_provider_incremental import SQLIncrementalQueryTrigger, incremental_asset

heard = incremental_asset(
    "heard",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    table="heard",
    cursor=["id"],
    listen="heard",
    poll_interval=60,
)

# What is measured ends with the run in the queue: nothing runs in it that would take the processor from the others.
with DAG(dag_id="heard", schedule=[heard], catchup=False, max_active_runs=16):
    EmptyOperator(task_id="nothing")
