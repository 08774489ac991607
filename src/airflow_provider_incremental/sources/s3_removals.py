"""Which keys are gone: those that were delivered, compared with a complete listing, page by page and in order.

A key is missing when its range of keys was listed up to a greater one, or to the end, without it. That counts only once
the whole listing is complete, as everything does; a listing that fails takes what was compared along.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Found, Memory, Pieces
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.s3_known import KnownKeys
from airflow_provider_incremental.sources.s3_listing import S3Listing
from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order
from airflow_provider_incremental.sources.s3_sweep import Range

__all__ = ["Comparison", "Removals"]

_KEPT_OF_A_LISTING = 20_000
_NOTED_AT_ONCE = 20_000


class Removals:
    """The known keys of one prefix, and what listings say of them.

    :param listing: of the prefix.
    """

    def __init__(self, *, listing: S3Listing) -> None:
        self._listing = listing
        self._known = KnownKeys(prefix=listing.place.prefix)

    @property
    def token(self) -> str:
        """Which commit the known keys are those of."""
        return self._known.token

    async def open(self, memory: Memory, low: Cursor) -> bool:
        """Take up what was committed last; whether the keys that are there have been noted, so that all are known."""
        await self._known.open(memory, low)
        return self._known.noted_to is None

    async def note(self, low: Cursor, ranges: Sequence[Range], is_known: Callable[[ListedObject], bool]) -> Found:
        """Look at keys that are there already, a bounded number at a time, and make those known that should be.

        :param low: the watermark.
        :param ranges: where to look.
        """
        keys: list[str] = []
        for each in sorted(ranges, key=self._known.bounds):
            after = self._rest_of(each)
            if after is None:
                continue
            scan = await self._listing.begin(prefix=each.prefix, after=after, until=each.until)
            async with aclosing(scan.pages()) as pages:
                async for objects in pages:
                    _require_order([key_order(listed.key) for listed in objects], b"")
                    keys += [listed.key for listed in objects if is_known(listed)]
                    if len(keys) >= _NOTED_AT_ONCE and not scan.ends:
                        return await self._noted(low, keys, objects[-1].key)
        return await self._noted(low, keys, None)

    def _rest_of(self, keys: Range) -> str | None:
        """Return the key behind which a range was not looked at yet; None when all of it was."""
        noted_to = self._known.noted_to
        if not noted_to:
            return keys.after
        start, end = self._known.bounds(keys)
        noted = self._known.relative(noted_to)
        if end is not None and noted >= end:
            return None
        return noted_to if noted >= start else keys.after

    async def _noted(self, low: Cursor, keys: Sequence[str], up_to: str | None) -> Found:
        pieces = await self._known.commit(high=low, added=keys, noted_to=up_to)
        note = None if up_to is None else f"noting which keys are there, to know when one is gone: up to {up_to!r}"
        return Found(high=low, remember=pieces, more=True, note=note)

    def compare(self) -> Comparison:
        """Begin to compare a listing."""
        return Comparison(self._known)

    async def commit(self, *, high: Cursor, added: Iterable[str], removed: Iterable[str]) -> Pieces:
        """Return what to write when a poll has delivered keys, or said that they are gone."""
        return await self._known.commit(high=high, added=added, removed=map(self._known.relative, removed))


class Comparison:
    """What one listing says of the known keys. As many missing ones are kept as a process can bear."""

    def __init__(self, known: KnownKeys) -> None:
        self._known = known
        self._missing: list[bytes] = []
        self.cut = False
        """Whether more keys are missing than were kept."""

    def missing(self) -> list[str]:
        """Return the keys that are missing, in order, after a complete listing."""
        return list(map(self._known.absolute, sorted(self._missing)))

    @asynccontextmanager
    async def follow(self, keys: Range) -> AsyncGenerator[_Pages, None]:
        """Follow the listing of a range."""
        async with aclosing(self._known.between(keys)) as chunks:
            yield _Pages(chunks, self._known.relative, self._miss)

    def _miss(self, keys: Sequence[bytes]) -> None:
        room = _KEPT_OF_A_LISTING - len(self._missing)
        self._missing += keys[:room]
        self.cut = self.cut or len(keys) > room


class _Pages:
    """Goes over the pages of a range, and over the known keys beside them."""

    def __init__(
        self,
        chunks: AsyncGenerator[Sequence[bytes], None],
        relative: Callable[[str], bytes],
        miss: Callable[[Sequence[bytes]], None],
    ) -> None:
        self._chunks = chunks
        self._relative = relative
        self._miss = miss
        self._ahead: Sequence[bytes] = ()
        self._at = 0
        self._last = b""

    async def page(self, objects: Sequence[ListedObject]) -> None:
        """Take a page.

        :raises SourceError: when the server does not list in the order of keys.
        """
        keys = [self._relative(each.key) for each in objects]
        if not keys:
            return
        _require_order(keys, self._last)
        self._last = keys[-1]
        await self._pass_over(self._last, frozenset(keys))

    async def end(self) -> None:
        """Take the end of the range: what is known behind the last page is missing."""
        await self._pass_over(None, frozenset())

    async def _pass_over(self, last: bytes | None, there: frozenset[bytes]) -> None:
        while True:
            end = len(self._ahead) if last is None else bisect_right(self._ahead, last, self._at)
            self._miss([key for key in self._ahead[self._at : end] if key not in there])
            self._at = end
            if end < len(self._ahead):
                return
            chunk = await anext(self._chunks, None)
            if chunk is None:
                self._ahead, self._at = (), 0
                return
            self._ahead, self._at = chunk, 0


def _require_order(keys: Sequence[bytes], after: bytes) -> None:
    if keys and (keys[0] < after or list(keys) != sorted(keys)):
        msg = (
            f"removals=True: the server does not list keys in their order (after {keys[0]!r}), so that it cannot be "
            "told which are gone; leave removals out"
        )
        raise SourceError(msg)
