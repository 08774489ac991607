"""What a feed does beside the order of things: make declared consumers known, clear the log of what nobody needs."""

from __future__ import annotations

import asyncio

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop
from airflow_provider_incremental.core.watermark import WatermarkKey

__all__ = ["Chores"]

_DAY = 86400.0
_HOUR = 3600.0
_PAGE = 1000
_SOON = 5.0


class Chores:
    """The chores of one watermark. None of them keeps a poll from happening: what fails is logged, and done later."""

    def __init__(self, *, key: WatermarkKey, store: WatermarkStore, settings: FeedSettings, clock: Clock) -> None:
        self._key = key
        self._store = store
        self._settings = settings
        self._clock = clock
        self._trouble = Trouble(f"watermark {key}")
        self._subscribe_at = 0.0
        self._prune_at = 0.0

    async def do(self, needed_from_seq: int) -> None:
        """Do what is due.

        :param needed_from_seq: batches from here on are needed for the lateness window.
        """
        now = self._clock.monotonic()
        try:
            if self._settings.consumers and now >= self._subscribe_at:
                await self._subscribe()
                self._subscribe_at = now + _DAY  # again, since who is not seen for a week is not called any more
            if self._settings.retention is not None and now >= self._prune_at:
                pruned = await self._store.prune(self._key, self._settings.retention, needed_from_seq, _PAGE)
                self._prune_at = now + (_SOON if pruned == _PAGE else _HOUR)
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            self._subscribe_at = max(self._subscribe_at, now + _SOON)
            self._prune_at = now + _HOUR
            self._trouble.begins("upkeep", error)
        else:
            self._trouble.ends("upkeep")

    async def _subscribe(self) -> None:
        this = Selector(self._key.asset_name, self._key.namespace, self._key.key)
        for consumer in self._settings.consumers:
            await self._store.subscribe(this, consumer, "earliest")
