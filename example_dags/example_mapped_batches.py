"""Dynamic task mapping: one mapped task for each batch that waits, with retries of its own."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import dag, task

from airflow_provider_incremental import PendingBatch, SQLIncrementalQueryTrigger, incremental_asset, pending_batches

# Numbers of a sequence are given when a row is inserted and seen when its transaction commits: a cursor of one alone is
# right only where a single writer inserts. Otherwise put a timestamp first, and give `settle` the longest transaction.
payments = incremental_asset(
    "payments",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    table="public.payments",
    cursor=["id"],
    max_rows=10,
    poll_interval=5,
    redeliver_after=30,
)


@dag(schedule=[payments], catchup=False, max_active_runs=1)
def example_mapped_batches():
    """Print the payments, a mapped task for each ten of them."""

    @task
    def waiting():
        return pending_batches(payments)

    # A batch that failed twice is held back for 30 seconds: a try that comes sooner would not get it.
    @task(retries=2, retry_delay=timedelta(seconds=60))
    def load(batch):
        with PendingBatch.from_json(batch).processing() as claimed:
            print("loading payments", [row["id"] for row in claimed.items])

    load.expand(batch=waiting())


example_mapped_batches()
