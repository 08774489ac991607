"""What a poll must know of the past: fingerprints inside the lateness window, and what the source remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet

from airflow_provider_incremental.core.batch import SeenBatch
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey

__all__ = ["SeenWindow", "StoredMemory"]

_PAGE = 100
_AFTER_ALL = 2**62


class SeenWindow:
    """The fingerprints a poll must know. Reads each batch of the log once; forgets those that left the window."""

    def __init__(self, store: WatermarkStore, source: Source) -> None:
        self._store = store
        self._source = source
        self._batches: dict[int, SeenBatch] = {}
        self._counts: dict[bytes, int] = {}  # in how many of the batches: after a rewind, in two
        self._newest = 0
        self._version = 0

    async def load(self, watermark: Watermark) -> AbstractSet[bytes]:
        """Return the fingerprints of the items that were delivered and that the next poll may read again.

        The set changes with the next call.
        """
        if self._source.lateness <= 0:
            return frozenset()
        if watermark.version != self._version:  # somebody else moved it, perhaps back to what was forgotten here
            self._batches, self._counts, self._newest, self._version = {}, {}, 0, watermark.version
        oldest = max(self._newest, watermark.reread_after_seq)
        before: int | None = None
        while watermark.last_seq > oldest:
            batches = await self._store.seen(watermark.key, oldest, before, _PAGE)
            inside = [batch for batch in batches if self._source.in_window(batch.high, watermark.cursor)]
            for batch in inside:
                await self._remember(batch)
            if not inside or len(batches) < _PAGE:  # a rewind leaves batches out of order: look at whole pages
                break
            before = batches[-1].seq
        self._newest = watermark.last_seq
        await self._forget_outside(watermark)
        return self._counts.keys()

    @property
    def oldest_seq(self) -> int:
        """The first batch that the next poll may need to know; the one after the newest when it needs none."""
        return min(self._batches, default=self._newest + 1) if self._source.lateness > 0 else _AFTER_ALL

    def follow(self, moved: Watermark) -> None:
        """Note a move that was committed here: everything known stays valid."""
        self._version = moved.version

    async def _remember(self, batch: SeenBatch) -> None:
        if batch.seq not in self._batches:
            self._batches[batch.seq] = batch
            for mark in batch.fingerprints:
                self._counts[mark] = self._counts.get(mark, 0) + 1
            await asyncio.sleep(0)  # a window may hold a million

    async def _forget_outside(self, watermark: Watermark) -> None:
        outside = [
            batch for batch in self._batches.values() if not self._source.in_window(batch.high, watermark.cursor)
        ]
        for batch in outside:
            del self._batches[batch.seq]
            for mark in batch.fingerprints:
                self._counts[mark] -= 1
                if not self._counts[mark]:
                    del self._counts[mark]
            await asyncio.sleep(0)


class StoredMemory:
    """What the source of a watermark remembers, read from the store each time.

    Read in the middle of somebody else's commit it may be newer than the poll's cursor; that poll's own commit is then
    a conflict, and nothing of it counts.
    """

    def __init__(self, store: WatermarkStore, key: WatermarkKey) -> None:
        self._store = store
        self._key = key

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        """See :class:`core.source.Memory`."""
        return await self._store.remembered(self._key, prefix, after, limit)
