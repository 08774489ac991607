"""What was delivered inside the lateness window: fingerprints from the batch log, kept between polls."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from airflow_provider_incremental.core.batch import SeenBatch
from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import Watermark

__all__ = ["SeenWindow"]

_PAGE = 100


class SeenWindow:
    """The fingerprints a poll must know. Reads each batch of the log once; forgets those that left the window."""

    def __init__(self, store: WatermarkStore, source: Source) -> None:
        self._store = store
        self._source = source
        self._batches: dict[int, SeenBatch] = {}
        self._newest = 0
        self._version = 0

    async def load(self, watermark: Watermark) -> AbstractSet[bytes]:
        """Return the fingerprints of the items that were delivered and that the next poll may read again."""
        if self._source.lateness <= 0:
            return frozenset()
        if watermark.version != self._version:  # somebody else moved it, perhaps back to what was forgotten here
            self._batches, self._newest, self._version = {}, 0, watermark.version
        oldest = max(self._newest, watermark.reread_after_seq)
        before: int | None = None
        while watermark.last_seq > oldest:
            batches = await self._store.seen(watermark.key, oldest, before, _PAGE)
            inside = [batch for batch in batches if self._source.in_window(batch.high, watermark.cursor)]
            self._batches.update((batch.seq, batch) for batch in inside)
            if not inside or len(batches) < _PAGE:  # a rewind leaves batches out of order: look at whole pages
                break
            before = batches[-1].seq
        self._newest = watermark.last_seq
        return self._forget_outside(watermark)

    def follow(self, moved: Watermark) -> None:
        """Note a move that was committed here: everything known stays valid."""
        self._version = moved.version

    def _forget_outside(self, watermark: Watermark) -> AbstractSet[bytes]:
        self._batches = {
            seq: batch for seq, batch in self._batches.items() if self._source.in_window(batch.high, watermark.cursor)
        }
        return frozenset().union(*(batch.fingerprints for batch in self._batches.values()))
