"""A DAG that is started by new and changed rows of a table, and processes each of them once."""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher, dag, task

from airflow_provider_incremental import SQLIncrementalQueryTrigger, consume

orders = Asset(
    "orders",
    watchers=[
        AssetWatcher(
            name="new_orders",
            trigger=SQLIncrementalQueryTrigger(
                asset_name="orders",
                conn_id="shop",
                table="public.orders",
                cursor=["updated_at", "id"],
                poll_interval=5,
                redeliver_after=30,
            ),
        )
    ],
)


@dag(schedule=[orders], catchup=False, max_active_runs=1)
def example_sql_incremental_query():
    """Print every row of ``public.orders`` that is new or was changed."""

    @task
    def load():
        for batch in consume(orders):
            for row in batch.items:
                print("loading order", row["id"], row["item"], row["amount"])

    load()


example_sql_incremental_query()
