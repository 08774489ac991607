"""Doing an operation once for a key, however often it is asked for: what a store must be able to do to be served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Protocol

__all__ = ["REMEMBERED_FOR", "DoesOnce", "OnceInMemory"]

REMEMBERED_FOR = 900.0
"""Seconds for which an answer is kept at least: who repeats a request gives up long before."""


class DoesOnce(Protocol):
    """An ability of stores."""

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """Run one operation of this store and remember its answer, in one transaction; a second time, only answer.

        :param key: what the operation is remembered by, for :data:`REMEMBERED_FOR` seconds: 1 to 32 characters.
        :param work: runs the operation and returns its answer as text. It may be called again when it had no effect.
        :raises IncrementalError: as the operation does, when it was not done before; an error is not remembered, as it
            changed nothing.
        """


class OnceInMemory:
    """The ability for a store that lasts as long as its process: no answer is ever lost."""

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """Run an operation once for a key."""
        while key in self._running:
            await asyncio.wait([self._running[key]])
        if key not in self._answers:
            self._running[key] = asyncio.get_running_loop().create_future()
            try:
                self._answers[key] = await work()
            finally:
                self._running.pop(key).set_result(None)
        return self._answers[key]

    @cached_property
    def _answers(self) -> dict[str, str]:
        return {}

    @cached_property
    def _running(self) -> dict[str, asyncio.Future[None]]:
        return {}
