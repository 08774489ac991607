"""The DAG of the control: it processes what the events that started its run name, and nothing else."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from airflow.sdk import Asset, AssetWatcher, dag, task
from chaos_naive import NaiveTrigger
from chaos_notes import Journal

naive = Asset("naive", watchers=[AssetWatcher(name="naive", trigger=NaiveTrigger(seconds=2))])


@dag(dag_id="control", schedule=[naive], catchup=False, max_active_runs=1)
def control():
    """Process the rows of the events."""

    @task
    def load(triggering_asset_events: Any = None):
        journal = Journal("control", "payments")
        for event in triggering_asset_events[naive]:
            numbers = event.extra["payload"]["ids"]
            batch = SimpleNamespace(id=str(numbers[0]), seq=0, attempt=1)
            journal.took(batch)
            time.sleep(0.3)
            journal.processed(batch, [f"{number} 0" for number in numbers])
        journal.left()

    load()


control()
