"""A trigger on the list of the test, and what the configured store then holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.testing.fakes import ListSource
from airflow_provider_incremental.triggers import IncrementalTrigger
from airflow_provider_incremental.wiring.stores import open_store

__all__ = ["KEY", "ListTrigger", "log_of", "trigger", "until", "watermark"]

KEY = WatermarkKey("list")


class ListTrigger(IncrementalTrigger):
    """Watches the list of the test."""

    source: ClassVar[ListSource]

    def create_source(self) -> Source:
        """Return the list of the test."""
        return self.source


def trigger(**arguments: Any) -> ListTrigger:
    """Build a trigger as the triggerer does, with paces that a test can wait for."""
    made = ListTrigger(**{"asset_name": "list", "poll_interval": 0.05, **arguments})
    return ListTrigger(**made.serialize()[1])


async def log_of(key: WatermarkKey = KEY) -> list[Batch]:
    """Return the batch log, oldest first."""
    async with open_store() as store:
        return (await store.history(key))[::-1]


async def watermark(key: WatermarkKey = KEY) -> Watermark | None:
    """Return the watermark."""
    async with open_store() as store:
        return await store.load(key)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.01)  # between two looks
