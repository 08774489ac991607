"""A DAG that copies new and changed rows inside of the database: the rows pass through no store, event or worker."""

from __future__ import annotations

from airflow.providers.postgres.hooks.postgres import PostgresHook
from airflow.sdk import Asset, AssetWatcher, dag, task

from airflow_provider_incremental import SQLIncrementalQueryTrigger, consume

shipments = Asset(
    "shipments",
    watchers=[
        AssetWatcher(
            name="new_shipments",
            trigger=SQLIncrementalQueryTrigger(
                asset_name="shipments",
                conn_id="shop",
                table="public.shipments",
                cursor=["updated_at", "id"],
                payload="range",
                poll_interval=5,
                redeliver_after=30,
            ),
        )
    ],
)

COPY = """
INSERT INTO public.shipments_archive SELECT * FROM public.shipments WHERE {condition}
ON CONFLICT (id) DO UPDATE SET parcel = excluded.parcel, updated_at = excluded.updated_at RETURNING parcel
"""


@dag(schedule=[shipments], catchup=False, max_active_runs=1)
def example_sql_range_copy():
    """Copy every row of ``public.shipments`` that is new or was changed, in one statement for each batch."""

    @task
    def load():
        shop = PostgresHook("shop")
        for batch in consume(shipments):
            # A `where=` of the trigger would not be part of this condition: it would have to be repeated in COPY.
            condition, parameters = batch.where()
            # A task that dies here runs the statement again: written so that the second time changes nothing.
            rows = shop.run(
                COPY.format(condition=condition), parameters=parameters, handler=lambda cursor: cursor.fetchall()
            )
            print("loading", *(parcel for (parcel,) in rows))

    load()


example_sql_range_copy()
