"""A source of your own in about thirty lines: the files of a folder, in the order of their names.

The triggerer imports the trigger's class: keep this file in Airflow's plugins folder or on its PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from airflow.sdk import dag, task

from airflow_provider_incremental import (
    Baseline,
    Found,
    IncrementalTrigger,
    Source,
    Watches,
    consume,
    incremental_asset,
)


class FolderSource(Source):
    """Files whose names grow, such as ``2026-01-31T12.csv``. The cursor is the name of the last one."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @property
    def watches(self):
        return Watches(source=f"file://{self.folder}", cursor="name")

    async def poll(self, low, limit, seen):
        names = await asyncio.to_thread(lambda: sorted(path.name for path in self.folder.iterdir()))
        found = [name for name in names if low is None or name > low]
        items = found[:limit]
        return Found(items=items, high=items[-1] if items else low, more=len(found) > limit)

    async def latest(self):
        names = await asyncio.to_thread(lambda: sorted(path.name for path in self.folder.iterdir()))
        return Baseline(cursor=names[-1] if names else None)


class FolderTrigger(IncrementalTrigger):
    """Watches a folder of this machine."""

    def __init__(self, *, asset_name, folder, **options):
        super().__init__(asset_name=asset_name, **options)
        self.folder = folder

    def create_source(self):
        return FolderSource(self.folder)


reports = incremental_asset(
    "reports",
    FolderTrigger,
    folder=os.environ.get("REPORTS_FOLDER", "/data/reports"),
    poll_interval=5,
    redeliver_after=30,
)


@dag(schedule=[reports], catchup=False, max_active_runs=1)
def example_custom_source():
    """Print the name of every new file in the folder."""

    @task
    def load():
        for batch in consume(reports):
            print("loading", batch.items)

    load()


example_custom_source()
