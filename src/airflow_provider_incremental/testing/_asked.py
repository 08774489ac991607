"""A source as the suite asks it: what does not come back, or comes back as something else, is said in so many words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import Any, TypeVar

from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.core.watermark import Cursor, Watches

__all__ = ["AskedSource", "NoAnswerError"]

T = TypeVar("T")


class NoAnswerError(AssertionError):
    """A source did not come back, or not with what it has to return."""


class AskedSource(Source):
    """Asks a source, and waits for so many seconds.

    :raises NoAnswerError: by each call, saying what was expected of it.
    """

    def __init__(self, source: Source, *, within: float) -> None:
        self._asked = source
        self._within = within
        self.lateness = source.lateness

    @property
    def watches(self) -> Watches:
        """The source's own."""
        return _of(Watches, self._asked.watches, "watches")

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Poll."""
        news = "it returns what is there now, and does not wait for news: changed() does"
        call = f"poll({low!r}, {limit}, ...)"
        return _of(Found, await self._answer(self._asked.poll(low, limit, seen), call, news), call)

    async def latest(self) -> Baseline:
        """Ask for the present end."""
        end = "it returns the position of the newest item, or Baseline(cursor=None) when there is none"
        return _of(Baseline, await self._answer(self._asked.latest(), "latest()", end), "latest()")

    async def at(self, cursor: Cursor) -> Baseline:
        """Ask for the baseline at a cursor."""
        call = f"at({cursor!r})"
        return _of(Baseline, await self._answer(self._asked.at(cursor), call, "it returns a Baseline"), call)

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Ask what may be read again."""
        return self._asked.in_window(high, low)

    async def aclose(self) -> None:
        """Close it."""
        await self._answer(self._asked.aclose(), "aclose()", "it gives back what the source holds, and returns")

    async def _answer(self, answer: Awaitable[T], call: str, expected: str) -> T:
        try:
            async with asyncio.timeout(self._within) as limit:
                return await answer
        except TimeoutError as error:
            if not limit.expired():
                raise
            msg = f"{call} has not returned after {self._within:g} seconds; expected: {expected}, or raises"
            raise NoAnswerError(msg) from error


def _of(kind: type[T], answer: Any, call: str) -> T:
    if not isinstance(answer, kind):
        raise NoAnswerError(f"{call} gave {answer!r}; expected: a {kind.__name__}")
    return answer
