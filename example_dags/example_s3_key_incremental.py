"""A DAG that is started by new objects in S3, and processes each of them once."""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher, dag, task

from airflow_provider_incremental import S3KeyIncrementalTrigger, consume

incoming_files = Asset(
    "incoming_files",
    watchers=[
        AssetWatcher(
            name="new_objects",
            trigger=S3KeyIncrementalTrigger(
                asset_name="incoming_files",
                bucket="incoming",
                prefix="in/",
                pattern="*.csv",
                aws_conn_id="aws_default",
                poll_interval=5,
                redeliver_after=30,
            ),
        )
    ],
)


@dag(schedule=[incoming_files], catchup=False, max_active_runs=1)
def example_s3_key_incremental():
    """Print every new object of ``s3://incoming/in/*.csv``."""

    @task
    def load():
        for batch in consume(incoming_files):
            for item in batch.items:
                print("loading", item["uri"], item["size"], "bytes")

    load()


example_s3_key_incremental()
