"""A deployment in miniature: a source, a store that survives, and triggers and workers that die and start again."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from airflow_provider_incremental.core.announcement import Announcement
from airflow_provider_incremental.core.intake import Intake
from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock, ListSource

__all__ = ["KEY", "SETTINGS", "Deployment", "Trigger"]

KEY = WatermarkKey("orders")
SETTINGS = FeedSettings(
    start="earliest",
    limit=100,
    poll_interval=10.0,
    announce_interval=30.0,
    redeliver_after=300.0,
    confirm_after=5.0,
)


class Trigger:
    """One process of a trigger: its own view of the store, its own feed, one task that runs it.

    ``airflow`` says what becomes of what it yields: ``stores`` it, ``confirms`` it exactly as well, ``drops`` it and
    says so, or ``kills`` the process before the event gets anywhere.
    """

    def __init__(self, deployment: Deployment, source: ListSource, settings: FeedSettings, airflow: str) -> None:
        self.store = CrashingStore(deployment.store)
        self.yielded: list[Announcement] = []
        self.yielded_at: list[float] = []
        self.airflow = airflow
        self.feed = Feed(key=KEY, store=self.store, source=source, settings=settings, clock=deployment.clock)
        self._deployment = deployment
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for announcement in self.feed.announcements():
            self.yielded.append(announcement)
            self.yielded_at.append(self._deployment.clock.monotonic())
            if self.airflow == "kills":
                self.store.dead = True
                raise ProcessDied
            if self.airflow == "drops":
                self.feed.drop(announcement)
                continue
            self._deployment.events.append(announcement)
            if self.airflow == "confirms":
                await self.feed.confirm(announcement)

    async def stop(self) -> None:
        """Shut the process down in order, or bury it."""
        self.task.cancel()
        await asyncio.wait([self.task])

    @property
    def died(self) -> bool:
        """Whether a crash point killed it."""
        return self.task.done() and isinstance(self.task.exception(), ProcessDied)


class Deployment:
    """Everything that outlives a process, and how to start one."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.store = MemoryStore(clock=clock, identity="the store")
        self.source = ListSource()
        self.events: list[Announcement] = []
        self.processed: list[str] = []
        self.held: list[str] = []
        self.triggers: list[Trigger] = []

    def trigger(self, *, source: ListSource | None = None, airflow: str = "stores", **settings: Any) -> Trigger:
        """Start a process of the trigger."""
        changed = dataclasses.replace(SETTINGS, **settings)
        self.triggers.append(Trigger(self, source or self.source, changed, airflow))
        return self.triggers[-1]

    async def run_for(self, seconds: float) -> None:
        """Let time pass for whatever runs."""
        await self.clock.run_for(seconds)

    def intake(self, store: CrashingStore | None = None, consumer: str = "load", holder: str = "worker") -> Intake:
        """A worker's hands."""
        return Intake(
            store=store or CrashingStore(self.store),
            selector=Selector(KEY.asset_name),
            consumer=consumer,
            holder=holder,
            lease=60.0,
            clock=self.clock,
        )

    async def work(self, store: CrashingStore | None = None, holder: str = "worker") -> None:
        """One run of the consuming DAG: process every batch that can be had."""
        mine = store or CrashingStore(self.store)
        await mine.subscribe(Selector(KEY.asset_name), "load", "earliest")
        intake = self.intake(mine, holder=holder)
        while (taken := await intake.claim()) is not None:
            try:
                self.held = [item["name"] for item in taken.claim.batch.items or ()]
                self.processed += self.held
                await intake.acknowledge(taken)
                self.held = []
            except ProcessDied:
                taken.keeper.cancel()  # it dies with the process
                raise

    async def watermark(self) -> Watermark:
        """The watermark as it stands."""
        watermark = await self.store.load(KEY)
        assert watermark is not None
        return watermark

    async def logged(self) -> list[str]:
        """The names of all items in the batch log, oldest first."""
        batches = await self.store.history(KEY, limit=10**6)
        return [item["name"] for batch in reversed(batches) for item in batch.items or ()]

    def announced(self) -> list[int]:
        """The sequence numbers in the events that Airflow stored, in order."""
        return [batch.seq for event in self.events for batch in event.batches]
