"""Whether the store answers: for load balancers, which have no credentials, and so cheap however often they ask."""

from __future__ import annotations

import asyncio
import logging

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import WatermarkKey

__all__ = ["Health"]

log = logging.getLogger(__name__)

_KNOWN_FOR = 2.0
_NOBODY = WatermarkKey("health")


class Health:
    """What a store said of itself in the last two seconds.

    :param store: the store.
    :param clock: measures how old that is.
    """

    def __init__(self, *, store: WatermarkStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._turn = asyncio.Lock()
        self._asked = -_KNOWN_FOR
        self._good = False

    async def good(self) -> bool:
        """Return whether the store answers; the log says why not, an anonymous caller is not told."""
        async with self._turn:
            if self._clock.monotonic() - self._asked >= _KNOWN_FOR:
                self._good = await self._answers()
                self._asked = self._clock.monotonic()
            return self._good

    async def _answers(self) -> bool:
        try:
            await self._store.load(_NOBODY)
        except StoreError as error:
            log.warning("the store does not answer: %s", describe(error))
            return False
        return True
