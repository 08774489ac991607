"""Watches a table for rows that are gone, through a feed that can be killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_removal_arguments import check_removals
from airflow_provider_incremental.sources.sql_source import SqlSource
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import Database

KEY = WatermarkKey("orders")


class Watching:
    """A feed over a source, on a clock of its own; it can be killed and started again over the same store."""

    def __init__(self, database: Database, *, limit: int = 1000, **arguments: Any) -> None:
        self.database, self.limit = database, limit
        self.store, self.clock = MemoryStore(), FakeClock()
        removal = ("removals", "primary_key", "deleted_column")
        given = {"table": "orders", "cursor": ["updated_at", "id"], "settle": 0.0, "visibility": "none"} | arguments
        self.selection = check_sql_arguments(**{name: value for name, value in given.items() if name not in removal})
        wanted = {name: value for name, value in given.items() if name in removal}
        self.removals = check_removals(self.selection, **wanted)
        self.small = False
        self.start()

    def start(self) -> None:
        """Begin, or begin again."""
        self.source = SqlSource(
            reader=self.database.reader(),
            conn_id="shop",
            selection=self.selection,
            removals=self.removals,
            clock=self.clock,
        )
        if self.small:
            walked = self.source._removals
            walked._range_keys, walked._step_keys = 5, 12
        pace = {"poll_interval": 10.0, "announce_interval": 10.0, "redeliver_after": 300.0}
        settings = FeedSettings(start="earliest", limit=self.limit, confirm_after=None, **pace)
        feed = Feed(key=KEY, store=self.store, source=self.source, settings=settings, clock=self.clock)

        async def run() -> None:
            async for announcement in feed.announcements():
                await feed.confirm(announcement)

        self.task = asyncio.create_task(run())

    async def live(self, seconds: float = 10.0) -> None:
        await self.clock.run_for(seconds)

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def batches(self, kind: str) -> list[list[Any]]:
        """The items of each batch of a kind, oldest first."""
        found = await self.store.history(KEY, limit=10_000)
        return [list(batch.items or ()) for batch in reversed(found) if batch.kind == kind]

    async def removed(self) -> list[Any]:
        return [item for items in await self.batches("removed") for item in items]

    async def status(self) -> Any:
        return (await self.store.load(KEY)).status


Start = Callable[..., Watching]
