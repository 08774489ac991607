"""A watcher that measures Airflow's own asset state store from inside a triggerer, whenever it is asked to."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, AssetWatcher, dag, task
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

_FOLDER = os.environ.get("INCREMENTAL_BENCH_FOLDER", "")


class AssetStateBench(BaseEventTrigger):
    """Sets one key for a while as often as it can, for every file ``NAME.go``, and answers in ``NAME.json``.

    :param folder: where the files are; ``NAME.go`` holds for how many seconds, and the value to set.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Name the class as the triggerer finds it: in the DAG folder."""
        return "asset_state_bench.AssetStateBench", {"folder": self.folder}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Serve one question after the other; never an event."""
        while True:
            question = await asyncio.to_thread(self._question)
            if question is None:
                await asyncio.sleep(0.1)
                continue
            name, seconds, value = question
            rate = await self._measure(seconds, value)
            await asyncio.to_thread(self._answer, name, rate)
        yield TriggerEvent({})

    async def _measure(self, seconds: float, value: str) -> float:
        """Return how many times a second a value was set."""
        done = 0
        began = time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            await self.asset_state_store.aset("watermark", f"{value}{done}")
            done += 1
        return done / passed

    def _question(self) -> tuple[str, float, str] | None:
        for path in sorted(Path(self.folder).glob("*.go")):
            asked = json.loads(path.read_text())
            path.unlink()
            return path.stem, asked["seconds"], asked["value"]
        return None

    def _answer(self, name: str, rate: float) -> None:
        unfinished = Path(self.folder, f"{name}.tmp")
        unfinished.write_text(json.dumps({"per_s": rate}))
        unfinished.rename(unfinished.with_suffix(".json"))


if _FOLDER:
    measured = Asset(
        "measured", watchers=[AssetWatcher(name="asset_state_bench", trigger=AssetStateBench(folder=_FOLDER))]
    )

    @dag(schedule=[measured], is_paused_upon_creation=False)
    def asset_state_bench() -> None:
        """Only here so that the watcher is."""

        @task
        def nothing() -> None:
            pass

        nothing()

    asset_state_bench()
