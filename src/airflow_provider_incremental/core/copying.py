"""Copies watermarks from one store to another: page by page, compared at the end, and never over what is there.

Whoever was killed in the middle begins again: a watermark is in the other store as a whole or not at all.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.snapshot import (
    FIRST,
    PAGE_BYTES,
    SECTIONS,
    BatchWork,
    LoggedBatch,
    Place,
    Section,
    Snapshot,
    is_staging,
)
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey

__all__ = ["Contents", "Outcome", "Result", "contents_of", "copy", "signs_of_life", "to_copy"]

Result = Literal["copied", "to copy", "there already", "differs", "changed meanwhile", "failed", "gone"]
"""What became of a watermark. Only of one that was copied, or changed meanwhile, is there anything new to be seen."""

_QUIET_AFTER = 60.0
_WORK = Place(section="work")


@dataclass(slots=True)
class Contents:
    """What a store has of a watermark: how much of it, and a digest by which two stores are compared.

    The digest is a sum over all parts, so that neither their order nor their pages matter. Of work that is finished, it
    has what every store keeps.
    """

    watermark: Watermark
    counts: dict[Section, int] = field(default_factory=lambda: dict.fromkeys(SECTIONS, 0))
    digest: int = 0

    def add(self, page: Snapshot) -> None:
        """Count a page in."""
        if page.next is None:
            self.watermark = page.watermark
            head = (*astuple(page.watermark), page.announced_at, page.announced_seq)
            self._add(None, [head])
        self._add("pieces", page.pieces.items())
        self._add("batches", map(_facts, page.batches))
        self._add("consumers", map(astuple, page.consumers))
        self._add("work", map(_deed, page.work))

    def _add(self, section: Section | None, parts: Iterable[Any]) -> None:
        for part in parts:
            text = dumps((section, part)).encode()
            self.digest = (self.digest + int.from_bytes(hashlib.sha256(text).digest())) % 2**256
            if section is not None:
                self.counts[section] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a watermark, with what each store has of it; ``reason`` says why it failed."""

    key: WatermarkKey
    result: Result
    source: Contents | None = None
    target: Contents | None = None
    reason: str | None = None

    @property
    def good(self) -> bool:
        """Whether the other store has all of it, or would have."""
        return self.result in ("copied", "to copy", "there already")


async def to_copy(source: WatermarkStore) -> list[Watermark]:
    """Return the watermarks of a store; what came there in part, and was given up, is none."""
    return [each for each in await source.list_watermarks() if not is_staging(each.key)]


async def copy(
    source: WatermarkStore,
    target: WatermarkStore,
    key: WatermarkKey,
    act: Act | None,
    *,
    dry_run: bool = False,
    told: Callable[[Contents], None] = lambda _: None,
    page_bytes: int = PAGE_BYTES,
) -> Outcome:
    """Copy one watermark with all that belongs to it.

    :param act: for the journal of the target.
    :param dry_run: read everything, write nothing.
    :param told: called after each page with what was copied so far.
    :param page_bytes: about how much to take along at once.
    """
    there = await contents_of(target, key)
    if there is not None or dry_run:
        return _compared(key, await contents_of(source, key), there)
    done: Contents | None = None
    async for page in _pages(source, key, page_bytes=page_bytes):
        try:
            await target.restore(page, act)
        except ConflictError:
            return Outcome(key=key, result="differs", source=done, target=await contents_of(target, key))
        done = _added(done, page)
        told(done)
    there, now = await contents_of(target, key), await contents_of(source, key)
    if done is None or there is None:
        return Outcome(key=key, result="gone")
    result: Result = "copied" if there == done == now else "differs" if there != done else "changed meanwhile"
    return Outcome(key=key, result=result, source=now, target=there)


async def contents_of(store: WatermarkStore, key: WatermarkKey) -> Contents | None:
    """Read all of a watermark, and say what it is; None when there is none."""
    found: Contents | None = None
    async for page in _pages(store, key):
        found = _added(found, page)
    return found


async def signs_of_life(store: WatermarkStore, watermark: Watermark, now: dt.datetime) -> list[str]:
    """Return what tells that a watermark is still polled, or that its batches are being processed.

    :param now: by the clock of the store, more or less.
    """
    signs = []
    quiet_at = _quiet_at(watermark)
    if quiet_at is not None and now < quiet_at:
        signs.append(f"it was polled lately; with no poll until {quiet_at:%Y-%m-%d %H:%M:%SZ} its trigger has stopped")
    held = [each async for page in _pages(store, watermark.key, _WORK) for each in page.work if each.held(now)]
    if held:
        until = max(each.lease_until for each in held)
        who = ", ".join(sorted({each.consumer for each in held}))
        signs.append(f"{who} has {len(held)} of its batches in work, until {until:%Y-%m-%d %H:%M:%SZ} at most")
    return signs


def _quiet_at(watermark: Watermark) -> dt.datetime | None:
    """Return from when on a trigger that has not polled is one that does not run, as for ``stale``."""
    status = watermark.status
    if status.last_poll_at is None:
        return None
    expected = max(((status.next_poll_at or status.last_poll_at) - status.last_poll_at).total_seconds(), 0.0)
    return status.last_poll_at + dt.timedelta(seconds=expected + max(expected, _QUIET_AFTER))


async def _pages(
    store: WatermarkStore, key: WatermarkKey, first: Place = FIRST, page_bytes: int = PAGE_BYTES
) -> AsyncIterator[Snapshot]:
    place: Place | None = first
    while place is not None:
        page = await store.export(key, place, page_bytes)
        if page is None:
            return
        yield page
        place = page.next


def _added(contents: Contents | None, page: Snapshot) -> Contents:
    contents = contents or Contents(page.watermark)
    contents.add(page)
    return contents


def _compared(key: WatermarkKey, mine: Contents | None, theirs: Contents | None) -> Outcome:
    result: Result = "to copy" if theirs is None else "there already" if mine == theirs else "differs"
    return Outcome(key=key, result="gone" if mine is None else result, source=mine, target=theirs)


def _facts(each: LoggedBatch) -> tuple[Any, ...]:
    batch = each.batch
    listed = (batch.seq, batch.id, batch.kind, batch.low, batch.high, batch.count, batch.committed_at)
    return (*listed, batch.announced_at, batch.items, b"".join(each.fingerprints))


def _deed(work: BatchWork) -> tuple[Any, ...]:
    # Of what is finished, a store need not keep more: nobody asks any more whose lease it was, and until when.
    if work.state == "acknowledged":
        return (work.consumer, work.seq, work.state, work.attempt)
    return astuple(work)
