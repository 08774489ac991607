"""What a poll must know of the past: fingerprints inside the lateness window, and what the source remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from airflow_provider_incremental.core.batch import SeenBatch
from airflow_provider_incremental.core.source import Found, Source
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import Cursor, Watermark, WatermarkKey

__all__ = ["LANDMARK", "SeenWindow", "StoredMemory"]

LANDMARK = "feed/landmark"
"""The name of the piece beside those of the source: where a start begins to read the log."""

_PAGE = 100
_AFTER_ALL = 2**62


@dataclass(frozen=True, slots=True)
class _Landmark:
    """No batch before ``first_seq`` is inside the window of this cursor, nor of any that is greater.

    Numbers alone do not tell: after a move back, older batches have greater cursors. Whatever is committed later, this
    stays true, for it gets greater numbers; so it need not change with each commit.
    """

    first_seq: int
    cursor: Cursor
    lateness: float

    def written(self) -> bytes:
        return dumps([self.first_seq, self.cursor, self.lateness]).encode()


def _landmark(piece: bytes) -> _Landmark | None:
    """Read a landmark; None for one that another release wrote in another form: the log tells as much, later."""
    try:
        return _Landmark(*loads(piece.decode()))
    except (TypeError, ValueError):
        return None


class SeenWindow:
    """The fingerprints a poll must know. Reads each batch of the log once; forgets those that left the window.

    :param page: how many batches are read at once.
    """

    def __init__(self, store: WatermarkStore, source: Source, page: int = _PAGE) -> None:
        self._store = store
        self._source = source
        self._page = page
        self._batches: dict[int, SeenBatch] = {}
        self._counts: dict[bytes, int] = {}  # in how many of the batches: after a rewind, in two
        self._newest = 0
        self._version = 0
        self._landmark: _Landmark | None = None  # as it is stored
        self._coming: _Landmark | None = None  # as of now, which serves when the window has left it behind
        self._offered: _Landmark | None = None  # goes with the next commit

    async def load(self, watermark: Watermark) -> AbstractSet[bytes]:
        """Return the fingerprints of the items that were delivered and that the next poll may read again.

        The set changes with the next call.
        """
        if self._source.lateness <= 0:
            return frozenset()
        if watermark.version != self._version:  # somebody else moved it, perhaps back to what was forgotten here
            self._landmark = await self._stored_landmark(watermark)
            self._batches, self._counts, self._newest, self._version = {}, {}, 0, watermark.version
            self._coming = self._offered = None
        anew = not self._newest
        read = await self._read(watermark)
        await self._forget_outside(watermark)
        if watermark.cursor is not None:
            if anew:
                await self._survey(watermark.cursor, read)
            self._advance(watermark.cursor)
        return self._counts.keys()

    @property
    def oldest_seq(self) -> int:
        """The first batch that the next poll may need to know; the one after the newest when it needs none."""
        if self._source.lateness <= 0:
            return _AFTER_ALL
        return min(self._batches, default=self._newest + 1) if self._newest else 1

    def noted(self, found: Found) -> Found:
        """Return what is about to be committed, with a note for the next start, which need not read the whole log."""
        if self._offered is None:
            return found
        return replace(found, remember={**found.remember, LANDMARK: self._offered.written()})

    def follow(self, moved: Watermark) -> None:
        """Note a move that was committed here: everything known stays valid."""
        self._version = moved.version
        if self._offered is not None:
            self._landmark, self._offered = self._offered, None

    async def _read(self, watermark: Watermark) -> list[tuple[int, Cursor]]:
        """Take in what was not read yet; return which batches that was, newest first."""
        first = self._landmark.first_seq if self._landmark else 1
        oldest = max(self._newest, watermark.reread_after_seq, first - 1)
        read: list[tuple[int, Cursor]] = []
        before: int | None = None
        while watermark.last_seq > oldest:
            batches = await self._store.seen(watermark.key, oldest, before, self._page)
            read += [(batch.seq, batch.high) for batch in batches]
            inside = [batch for batch in batches if self._source.in_window(batch.high, watermark.cursor)]
            for batch in inside:
                await self._remember(batch)
            if len(batches) < self._page:
                break
            if watermark.cursor is None and not inside:
                break
            before = batches[-1].seq
        # What is outside at the very start may be inside later: it is looked at again.
        again = watermark.cursor is None and len(self._batches) < len(read)
        self._newest = 0 if again else watermark.last_seq
        return read

    async def _stored_landmark(self, watermark: Watermark) -> _Landmark | None:
        """Return the landmark that an earlier process left, if it is certain to lie before this cursor."""
        if watermark.cursor is None:
            return None
        for name, piece in await self._store.remembered(watermark.key, LANDMARK, "", 1):
            landmark = _landmark(piece) if name == LANDMARK else None
            wide = landmark is not None and landmark.lateness >= self._source.lateness
            if landmark is not None and wide and self._is_behind(landmark.cursor, watermark.cursor):
                return landmark
        return None

    def _is_behind(self, cursor: Cursor, low: Cursor) -> bool:
        """Whether a cursor is certainly less than another. Only the source knows their order, by its window."""
        return cursor is not None and not self._source.in_window(cursor, low)

    async def _survey(self, cursor: Cursor, read: Sequence[tuple[int, Cursor]]) -> None:
        """Look among the batches that were read for a landmark that serves the next start at once."""
        known = self._landmark
        for _, high in read:
            if self._is_behind(high, cursor) and (known is None or self._is_behind(known.cursor, high)):
                break
        else:
            return
        first = _AFTER_ALL
        for number, (seq, each) in enumerate(read):
            if self._source.in_window(each, high):
                first = min(first, seq)
            if not number % self._page:
                await asyncio.sleep(0)
        if first < _AFTER_ALL:
            self._offer(_Landmark(first, high, self._source.lateness))

    def _advance(self, cursor: Cursor) -> None:
        if self._coming is not None and self._is_behind(self._coming.cursor, cursor):
            self._offer(self._coming)
            self._coming = None
        if self._coming is None:
            self._coming = _Landmark(self.oldest_seq, cursor, self._source.lateness)

    def _offer(self, landmark: _Landmark) -> None:
        """Keep a landmark when it spares the next start a page or more; where it is narrower, it replaces any."""
        known = self._landmark.first_seq if self._landmark else 1
        if landmark.first_seq - known >= self._page:
            self._offered = landmark

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
        pieces = await self._store.remembered(self._key, prefix, after, limit + 1)
        return [piece for piece in pieces if piece[0] != LANDMARK][:limit]
