"""A complete listing in several ranges of keys at once: which ranges, learned from the listing before, and their walk.

Every key lies in exactly one range, and every range is listed to its end after ``asked_at``. So what a sweep sees is
what one listing sees, whatever is written meanwhile and wherever the keys are split.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import NamedTuple, Protocol

from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_listing import S3Listing, Scan
from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order

__all__ = ["Follow", "Offer", "Range", "Samples", "SplitPoints", "Sweep"]

AT_ONCE = 16
_PAGES_A_RANGE = 4  # fewer are not worth a range of their own
_SAMPLES = 128

Offer = Callable[[Sequence[ListedObject]], None]


class Follower(Protocol):
    """Goes along with one range, in the order of its keys."""

    async def page(self, objects: Sequence[ListedObject]) -> None:
        """Take a page."""

    async def end(self) -> None:
        """Take the end of the range."""


class Range(NamedTuple):
    """The keys with a prefix, behind one key, up to another one."""

    prefix: str
    after: str = ""
    until: str | None = None


Follow = Callable[[Range], AbstractAsyncContextManager[Follower]]


class Sweep:
    """A listing of ranges that has begun."""

    def __init__(self, listing: S3Listing, keys: Range, first: Scan, rest: Sequence[Range]) -> None:
        self.asked_at: dt.datetime = first.asked_at
        """A moment, by the server's clock, before anything was listed."""
        self._listing = listing
        self._first = first
        self._first_keys = keys
        self._rest = rest

    @classmethod
    async def begin(cls, listing: S3Listing, ranges: Sequence[Range]) -> Sweep:
        """Ask for the first page.

        :param ranges: at least one.
        :raises S3ListingError: when there is none.
        """
        first, *rest = ranges
        scan = await listing.begin(prefix=first.prefix, after=first.after, until=first.until)
        return cls(listing, first, scan, rest)

    @property
    def ranges(self) -> Sequence[Range]:
        """What is listed."""
        return [self._first_keys, *self._rest]

    def add(self, ranges: Sequence[Range]) -> None:
        """List these as well."""
        self._rest = [*self._rest, *ranges]

    async def walk(self, offer: Offer, samples: Samples | None = None, follow: Follow | None = None) -> None:
        """Hand over the objects of every page, in no order that matters.

        :param samples: learns how the keys are spread.
        :param follow: what goes along with each range.
        :raises S3ListingError: when a range cannot be listed to its end; nothing that was handed over counts then.
        """
        turn = asyncio.Semaphore(AT_ONCE)

        async def read(number: int, keys: Range, scan: Scan) -> None:
            async with aclosing(scan.pages()) as pages, follow(keys) if follow else nullcontext() as follower:
                async for objects in pages:
                    offer(objects)
                    if samples is not None and objects:
                        samples.page(number, objects)
                    if follower is not None:
                        await follower.page(objects)
                if follower is not None:
                    await follower.end()

        async def begin_and_read(number: int, keys: Range) -> None:
            async with turn:
                scan = await self._listing.begin(prefix=keys.prefix, after=keys.after, until=keys.until)
                await read(number, keys, scan)

        jobs = [read(0, self._first_keys, self._first)]
        jobs += [begin_and_read(number, keys) for number, keys in enumerate(self._rest, 1)]
        if len(jobs) == 1:
            await jobs[0]
            return
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Samples:
    """The last keys of pages, a bounded number for each range, each with the pages that it stands for."""

    def __init__(self) -> None:
        self.sorted = True
        self._ranges: dict[int, list[str]] = {}
        self._strides: dict[int, int] = {}
        self._pages: dict[int, int] = {}

    def page(self, number: int, objects: Sequence[ListedObject]) -> None:
        """Note a page of a range."""
        keys = self._ranges.setdefault(number, [])
        first, last = key_order(objects[0].key), key_order(objects[-1].key)
        if first > last or (keys and first < key_order(keys[-1])):
            self.sorted = False
        stride = self._strides.setdefault(number, 1)
        self._pages[number] = self._pages.get(number, 0) + 1
        if self._pages[number] % stride == 0:
            keys.append(objects[-1].key)
        if len(keys) > _SAMPLES:
            del keys[::2]
            self._strides[number] = 2 * stride

    def weighted(self) -> list[tuple[str, int]]:
        """Return the keys in order, each with the number of pages that it stands for."""
        return [(key, self._strides[number]) for number in sorted(self._ranges) for key in self._ranges[number]]


class SplitPoints:
    """Where to split the keys of one prefix, so that ranges take equally long; unknown before the first listing."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._keys: list[str] = []
        self._splits_well = True

    def dump(self) -> bytes:
        """Return what :meth:`load` reads."""
        return json.dumps({"keys": self._keys, "splits_well": self._splits_well}).encode()

    def load(self, kept: bytes) -> None:
        """Take up what another process has learned."""
        known = json.loads(kept)
        self._keys, self._splits_well = known["keys"], known["splits_well"]

    def ranges(self) -> list[Range]:
        """Return the ranges to list: one, while nothing is known."""
        ends: list[str | None] = [*self._keys, None]
        return [Range(self._prefix, after, until) for after, until in zip(["", *self._keys], ends, strict=True)]

    def learn(self, samples: Samples) -> None:
        """Take split points from a complete listing."""
        if not samples.sorted:
            self._splits_well = False
        weighted = samples.weighted() if self._splits_well else []
        pages = sum(weight for _, weight in weighted)
        count = min(AT_ONCE, pages // _PAGES_A_RANGE)
        self._keys = []
        passed = 0
        for key, weight in weighted[:-1]:
            passed += weight
            if len(self._keys) + 1 < count and passed * count >= pages * (len(self._keys) + 1):
                self._keys.append(key)

    def fail(self, error: S3ListingError) -> None:
        """List in one piece next time: a server that is short of breath is asked less, one that cannot split, never."""
        self._keys = []
        if error.unsplittable:
            self._splits_well = False
