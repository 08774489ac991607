"""The DAGs of a chaos run: three watched assets, and three consumers that note in a journal what they process."""

from __future__ import annotations

import random
import time
from typing import Any

from airflow.sdk import dag, task
from chaos_notes import Journal, is_refused, name_of

from airflow_provider_incremental import (
    PendingBatch,
    S3KeyIncrementalTrigger,
    SQLIncrementalQueryTrigger,
    consume,
    incremental_asset,
    pending_batches,
)

# A fault counts this up: every trigger's arguments change with it.
EDITED = 0
LEASE = 20
MAX_ATTEMPTS = 5
RETRY = {"retry_delay": 1}
PACE = {"poll_interval": 2 + EDITED / 1000, "redeliver_after": 12}

files = incremental_asset(
    "files", S3KeyIncrementalTrigger, bucket="incoming", prefix="in/", settle=2, announce_interval=3, **PACE
)
orders = incremental_asset(
    "orders",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    table="public.orders",
    cursor=["updated_at", "id"],
    settle=6,
    announce_interval=3,
    max_rows=300,
    **PACE,
)
# Each batch of these is a mapped task, which costs Airflow a second or two.
payments = incremental_asset(
    "payments",
    SQLIncrementalQueryTrigger,
    conn_id="shop",
    sql="SELECT id, amount, 0 AS revision FROM public.payments",
    unique=True,
    cursor="id",
    **{**PACE, "poll_interval": 12 + EDITED / 1000},
)
DEFAULTS = {"retries": 1, "retry_delay": 1}


class RefusedError(Exception):
    """A consumer's body that fails, as bodies do."""


def work(journal: Journal, batch: Any, *, fails: float, seconds: float) -> None:
    """Process a batch: fail before it, or note its items, somewhere within so many seconds.

    :param fails: how probable it is that the first attempt fails. More than 0 means also that a batch
        with an item that :func:`is_refused` fails at every attempt.
    """
    journal.took(batch)
    chance = random.Random()
    time.sleep(chance.uniform(0, seconds))
    unlucky = batch.attempt == 1 and chance.random() < fails
    if unlucky or (fails and any(map(is_refused, map(name_of, batch.items)))):
        raise RefusedError
    journal.processed(batch, [name_of(item) for item in batch.items])
    time.sleep(chance.uniform(0, seconds))


def process(consumer: str, asset: Any, *, fails: float, seconds: float) -> None:
    """Process everything that waits; every other batch is acknowledged by its loop, and the others explicitly."""
    journal = Journal(consumer, asset.name)
    last: Any = None
    try:
        for batch in consume(asset, lease=LEASE, max_batches=20, max_attempts=MAX_ATTEMPTS if fails else None, **RETRY):
            if last is not None:
                journal.acknowledged(last)
            last = batch
            work(journal, batch, fails=fails, seconds=seconds)
            if batch.seq % 2:
                batch.acknowledge()
    except BaseException as error:
        if last is not None:
            journal.ended(last, error)
        raise
    if last is not None:
        journal.acknowledged(last)
    journal.left()


def consumer(name: str, *, runs: int, fails: float, seconds: float) -> None:
    """Make the DAG that processes all three assets."""

    @dag(dag_id=name, schedule=(files | orders | payments), catchup=False, max_active_runs=runs, default_args=DEFAULTS)
    def consuming():
        @task
        def load():
            for asset in (files, orders, payments):
                process(name, asset, fails=fails, seconds=seconds)

        load()

    consuming()


consumer("slow", runs=1, fails=0, seconds=0.7)
consumer("failing", runs=2, fails=0.15, seconds=0.3)


@dag(dag_id="mapped", schedule=[payments], catchup=False, max_active_runs=2, default_args=DEFAULTS)
def mapped():
    """Process each batch in a mapped task of its own."""

    @task
    def waiting():
        return pending_batches(payments, limit=6)

    @task
    def load(form):
        journal = Journal("mapped", payments.name)
        batch: Any = None
        try:
            with PendingBatch.from_json(form).processing(lease=LEASE, max_attempts=None, **RETRY) as batch:
                work(journal, batch, fails=0, seconds=0.7)
        except BaseException as error:
            if batch is not None:
                journal.ended(batch, error)
            raise
        journal.acknowledged(batch)
        journal.left()

    load.expand(form=waiting())


mapped()
