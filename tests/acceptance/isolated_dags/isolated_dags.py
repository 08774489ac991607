"""The DAG of the tests of isolation: it notes what it processed in a table, so that losses and repeats show."""

from __future__ import annotations

from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import dag, task

from airflow_provider_incremental import SQLIncrementalQueryTrigger, consume, incremental_asset

isolated = incremental_asset(
    "isolated",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    table="public.isolated",
    cursor=["id"],
    poll_interval=1,
    redeliver_after=15,
    settle=0,
)


@dag(schedule=[isolated], catchup=False, max_active_runs=1)
def consume_isolated():
    """Take every batch through the API."""

    @task
    def process():
        for batch in consume(isolated):
            rows = [("isolated", row["id"], "") for row in batch.items]
            PostgresHook("shop").insert_rows("processed", rows, ["asset", "id", "form"])

    process()


consume_isolated()
