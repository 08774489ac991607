"""The control: what a watcher and its DAG look like without this package, as AIP-93 sketches them.

The trigger keeps its watermark next to the ``yield``, here in a file that no fault touches, which is more than the
sketch has. The DAG reads nothing but the events that started its run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

__all__ = ["NaiveTrigger"]

_ROWS = "SELECT id FROM public.payments WHERE id > $1 ORDER BY id LIMIT 1000"


class NaiveTrigger(BaseEventTrigger):
    """Yields the numbers of the rows that are new since the watermark."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow builds it from."""
        return "chaos_naive.NaiveTrigger", {"seconds": self.seconds}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Read, move the watermark, yield; Airflow starts it again when it fails."""
        kept = Path(os.environ["CHAOS_NAIVE_WATERMARK"])
        while True:
            low = _read(kept)
            connection = await asyncpg.connect(os.environ["AIRFLOW_CONN_SHOP"].replace("postgres://", "postgresql://"))
            try:
                rows = [row["id"] for row in await connection.fetch(_ROWS, low)]
            finally:
                await connection.close()
            if rows:
                _write(kept, str(rows[-1]))
                yield TriggerEvent({"ids": rows})
            await asyncio.sleep(self.seconds)


def _read(file: Path) -> int:
    return int(file.read_text()) if file.exists() else 0


def _write(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
