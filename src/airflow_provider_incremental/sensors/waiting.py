"""The trigger of a deferred sensor: asks the store until a batch waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from airflow_provider_incremental.core.checks import SHORTEST, Seconds, as_seconds
from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.pace import backoff
from airflow_provider_incremental.core.store import ConsumerStart, Selector, WatermarkStore
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop
from airflow_provider_incremental.triggers._arguments import Rebuildable
from airflow_provider_incremental.wiring.airflow import BaseTrigger, TriggerEvent
from airflow_provider_incremental.wiring.stores import open_store

__all__ = ["PendingBatchTrigger"]


class PendingBatchTrigger(Rebuildable, BaseTrigger):
    """Ends with an event when a batch waits that a consumer could claim now.

    A store that cannot be reached is asked again with growing distance; the sensor's ``timeout`` ends that.

    It goes on making the consumer known, so that it finds watermarks that are made while it waits, and is not taken for
    one that does not come back.

    :param asset_name: and :param consumer: whose batches.
    :param namespace: and :param key: only these watermarks; by default all of the asset.
    :param start: where the consumer begins on watermarks on which it is not known: ``"earliest"`` (the default) or
        ``"latest"``.
    :param poll_interval: seconds between two questions (default 60).
    """

    def __init__(
        self,
        *,
        asset_name: str,
        consumer: str,
        namespace: str | None = None,
        key: str | None = None,
        start: ConsumerStart = "earliest",
        poll_interval: Seconds = 60,
    ) -> None:
        self.recover()
        self.selector = Selector(asset_name, namespace, key)
        self.consumer = consumer
        self.start = start
        self.poll_interval = as_seconds("poll_interval", poll_interval, least=SHORTEST)

    def recover(self) -> None:
        """Set what the object needs to run, also when its constructor cannot finish."""
        BaseTrigger.__init__(self)
        self.clock: Clock = SystemClock()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event; what cannot be waited for is said in it, and never raised in the triggerer."""
        if self.fault is not None:
            yield TriggerEvent({"error": self.fault})
            return
        trouble = Trouble(f"batches of {self.selector.asset_name} for {self.consumer}")
        failures = 0
        while True:
            try:
                async with open_store() as store:
                    while not await self._found(store):
                        failures = 0
                        trouble.ends("waiting")
                        await self.clock.sleep(self.poll_interval)
            except (Exception, asyncio.CancelledError) as error:
                if told_to_stop(error):
                    raise
                failures += 1
                trouble.begins("waiting", error)
                await self.clock.sleep(backoff(self.poll_interval, failures))
            else:
                yield TriggerEvent({"waiting": True})
                return

    async def _found(self, store: WatermarkStore) -> bool:
        await store.subscribe(self.selector, self.consumer, self.start)
        return bool(await store.pending(self.selector, self.consumer, 1, free=True))
