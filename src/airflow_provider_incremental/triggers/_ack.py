"""Ack mode: Airflow tells us which events it has stored, and the batches of those count as delivered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from airflow_provider_incremental.core.announcement import Announcement
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.trouble import told_to_stop
from airflow_provider_incremental.wiring.airflow import SharedStreamProducer

__all__ = ["AcknowledgedStream"]

log = logging.getLogger(__name__)

_STORE_ANSWERS_WITHIN = 30.0
"""Seconds: Airflow waits for a confirmation before it goes on, also when it shuts down."""


class _Announcer(Protocol):
    def announcements(self, *, confirm_after: float | None) -> AsyncIterator[Announcement]: ...

    async def confirm(self, announcement: Announcement) -> None: ...

    def drop(self, announcement: Announcement) -> None: ...

    async def cleanup(self) -> None: ...


class AcknowledgedStream(SharedStreamProducer):
    """One trigger's announcements as a stream whose events Airflow confirms one by one."""

    def __init__(self, trigger: _Announcer) -> None:
        self._trigger = trigger

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield each announcement's payload, and the announcement to recognise it by when it is confirmed."""
        async for announcement in self._trigger.announcements(confirm_after=None):
            yield announcement.payload, announcement

    async def advance(self, batch: Sequence[Any]) -> None:
        """Confirm what Airflow has stored; what it has not is announced again. Raising would end the stream."""
        for announcement, outcome in batch:
            if not outcome.is_clean:
                self._trigger.drop(announcement)
                continue
            try:
                async with asyncio.timeout(_STORE_ANSWERS_WITHIN):
                    await self._trigger.confirm(announcement)
            except (Exception, asyncio.CancelledError) as error:
                if told_to_stop(error):
                    raise
                log.warning("a confirmation was not stored, its batches are announced again: %s", describe(error))

    async def aclose(self) -> None:
        """Give back the store and the source."""
        await self._trigger.cleanup()
