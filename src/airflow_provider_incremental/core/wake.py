"""Waiting until the next thing is to be done, or until a source says that there may be something new."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from airflow_provider_incremental.core.clock import Clock, sleep_unless
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.redact import describe

__all__ = ["Wake"]

log = logging.getLogger(__name__)

_SPACING = 0.2
"""Seconds for which further news wait after the last: a burst of a thousand notifications is a few polls."""
_AFTER_A_FAILURE = 30.0
_LAST_WORDS = 5.0
"""Seconds that a listener has to end, by the real clock, when it is told to."""


class Wake:
    """Rests for a time, less if the source has news. As a context it lets go of the source when it is left.

    :param changed: :meth:`Source.changed`.
    """

    def __init__(self, changed: Callable[[], Awaitable[None] | None], clock: Clock) -> None:
        self._changed = changed
        self._clock = clock
        self._news: asyncio.Future[None] | None = None
        self._listens_from = 0.0

    async def __aenter__(self) -> Self:
        """Begin; nothing listens before the first rest."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no more."""
        news, self._news = self._news, None
        if news is not None:
            news.cancel()
            await asyncio.wait([news], timeout=_LAST_WORDS)

    async def rest(self, seconds: float) -> bool:
        """Wait that long, or until there is news; whether there was."""
        end = self._clock.monotonic() + seconds
        deaf = self._listens_from - self._clock.monotonic()
        if deaf > 0:
            await self._clock.sleep(min(deaf, seconds))
        news = self._listen()
        seconds = max(end - self._clock.monotonic(), 0.0)
        if news is None:
            await self._clock.sleep(seconds)
            return False
        await sleep_unless(self._clock, seconds, news)
        return news.done() and self._heard(news)

    def _listen(self) -> asyncio.Future[None] | None:
        if self._news is None and self._clock.monotonic() >= self._listens_from:
            try:
                with contained():
                    changed = self._changed()
            except Exception as error:
                self._failed(error)
                return None
            self._news = None if changed is None else asyncio.ensure_future(_awaited(changed))
        return self._news

    def _heard(self, news: asyncio.Future[None]) -> bool:
        self._news = None
        error = None if news.cancelled() else news.exception()
        if news.cancelled() or error is not None:
            self._failed(error)
            return False
        self._listens_from = self._clock.monotonic() + _SPACING
        return True

    def _failed(self, error: BaseException | None) -> None:
        self._listens_from = self._clock.monotonic() + _AFTER_A_FAILURE
        if error is not None:
            log.warning("listening for changes failed, polls go on; next try in 30 s: %s", describe(error))


async def _awaited(changed: Awaitable[None]) -> None:
    """Wait for what a source gave: in a task, what no ``except Exception`` sees would end the whole event loop."""
    with contained():
        await changed
