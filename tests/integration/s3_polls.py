"""Polls of a source one by one, with what a store would remember between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core.source import Baseline, Found, Source
from tests.integration.s3_landing import DEADLINE, Landing
from tests.unit.sources.s3_memory import FakeMemory


def still() -> float:
    """Return the time of a clock by which no exchange with the server takes long.

    A source looks back by as long as the server took to answer. Without this, an object that was old enough for one
    source would again be too new for the next one, whenever the machine is busier.
    """
    return 0.0


class Polls:
    """A watermark of one source over a bucket, on a clock that stands :func:`still`.

    :param keep: whether the source lives on from one poll to the next, instead of being restarted before each.
    :param make: makes the source; by default that of the landing.
    """

    def __init__(
        self,
        landing: Landing,
        *,
        limit: int = 1000,
        keep: bool = False,
        make: Callable[..., Source] | None = None,
        **arguments: Any,
    ) -> None:
        self.landing = landing
        self.limit = limit
        self.low: Any = None
        self.seen: set[bytes] = set()
        self.items: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.late = 0
        self.memory = FakeMemory()
        self._keep = keep
        self._make = make or landing.source
        self._arguments = {"monotonic": still, **arguments}
        self._source: Source | None = None

    @property
    def keys(self) -> list[str]:
        """What was delivered."""
        return [item["key"] for item in self.items]

    def source(self) -> Source:
        """Return the source for the next poll."""
        if self._source is None:
            self._source = self._make(**self._arguments)
            self._source.memory = self.memory
        return self._source

    async def restart(self) -> None:
        """End the process."""
        source, self._source = self._source, None
        if source is not None:
            await source.aclose()

    async def start_at_latest(self) -> Baseline:
        """Begin behind what is there."""
        baseline = await self.source().latest()
        self.low = baseline.cursor
        self.seen.update(baseline.fingerprints)
        self.memory.change(baseline.remember)
        return baseline

    async def poll(self) -> Found:
        """Poll once."""
        try:
            found = await self.source().poll(self.low, self.limit, self.seen)
        finally:
            if not self._keep:
                await self.restart()
        self.low = found.high
        self.seen.update(found.fingerprints)
        self.items += found.items
        self.removed += [item["key"] for item in found.removed]
        self.late += found.late_skipped
        self.memory.change(found.remember)
        return found

    async def until(self, holds: Callable[[], bool]) -> list[int]:
        """Poll until something holds, and return the sizes of the batches there were."""
        sizes = []
        async with asyncio.timeout(DEADLINE):
            while not holds():
                found = await self.poll()
                sizes += [found.size] if found.size else []
                await asyncio.sleep(0 if found.more else 0.1)
        return sizes

    async def settled(self) -> None:
        """Poll until everything that is there now could be taken: an object put now has been delivered."""
        await self.landing.put("zz-settled")
        await self.until(lambda: "zz-settled" in self.keys)

    async def until_old(self, key: str) -> None:
        """Poll until an object is old enough to be taken, whoever takes it."""
        await self.until(lambda: key in self.keys)
