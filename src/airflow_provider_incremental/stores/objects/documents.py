"""The documents of a bucket: read, and changed by compare-and-swap, as often as it takes and with effect once.

What is true at every ``await`` of a change: nothing is in the bucket yet of what it changes but objects that no
document names, or all of it is. Each attempt has a token of its own, which stands in the document that it writes; so
who did not hear what became of an attempt finds out by reading, before the next one. What is answered was true of a
document that was read during the operation, or written by it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.objects.bucket import (
    Bucket,
    MissingObjectError,
    Stored,
)
from airflow_provider_incremental.stores.objects.codec import (
    joined,
    packed,
    parted,
    read_document,
    unpacked,
    written_document,
)
from airflow_provider_incremental.stores.objects.document import (
    TOKENS,
    Document,
    asset_folder,
    document_name,
    new_token,
)
from airflow_provider_incremental.stores.objects.race import Proposal, Race
from airflow_provider_incremental.stores.objects.server_clock import ServerClock

__all__ = ["Documents"]

T = TypeVar("T")

Change = Callable[[Document], Awaitable[T]]
"""Changes a document that is its own, and returns what the operation answers; it may be called again, with another."""

_ROOT = "watermarks/"
_AT_ONCE = 16
_BIG = 10_000
"""Compressed bytes that take a few milliseconds: more is for another thread."""
_MANY = 200
"""Batches of a document that become JSON in a millisecond or two."""
_KEPT_BYTES = 32_000_000
_READ_AGAIN = 3
_FRESH = dt.timedelta(seconds=2)
"""How old a copy may be from which a change is made unread. Since an older one, others may have written so much that a
refusal, which may be that of an attempt made again below, tells nothing."""


class Documents:
    """The documents, those that were read or written last kept at hand.

    :param bucket: where they are.
    :param clock: the time that stamps what is written.
    :param finish: called with a changed document before it is written; returns whether it changed it once more.
    """

    def __init__(self, *, bucket: Bucket, clock: ServerClock, finish: Callable[[Document], Awaitable[bool]]) -> None:
        self._bucket = bucket
        self._clock = clock
        self._finish = finish
        self._kept: OrderedDict[str, Stored] = OrderedDict()
        self._kept_at: dict[str, dt.datetime] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def get(self, key: WatermarkKey, *, lenient: bool = False) -> Document | None:
        """Return a document as it is now; None when there is none."""
        stored = await self._read(document_name(key))
        return await _decoded(stored, lenient=lenient) if stored else None

    async def selected(self, selector: Selector | None = None, *, lenient: bool = False) -> list[Document]:
        """Return the documents of the selected watermarks, by their names, also such as were forgotten."""
        if selector and selector.namespace is not None and selector.key is not None:
            key = WatermarkKey(selector.asset_name, selector.namespace, selector.key)
            found = [await self.get(key, lenient=lenient)]
        else:
            listed = await self._bucket.names(asset_folder(selector.asset_name) if selector else _ROOT)
            found = await asyncio.gather(*(self._listed(each.name, each.etag, lenient=lenient) for each in listed))
        there = [each for each in found if each and (selector is None or selector.matches(each.key))]
        return sorted(there, key=lambda each: (each.key.asset_name, each.key.namespace, each.key.key))

    async def reading(self, key: WatermarkKey, work: Callable[[Document], Awaitable[T]], nothing: T) -> T:
        """Return what is read of a document and of the objects that it names, all of one moment.

        :param nothing: the answer where there is no such watermark.
        """
        for attempt in range(_READ_AGAIN):
            document = await self.get(key, lenient=True)
            if document is None or document.record is None:
                return nothing
            try:
                return await work(document)
            except MissingObjectError:  # it was deleted since the document was read, or it should not be missing
                if attempt == _READ_AGAIN - 1:
                    raise
        return nothing

    async def change(self, key: WatermarkKey, change: Change[T]) -> T:
        """Change a document, and return the answer of the change that went in.

        :raises StoreUnavailableError: when it cannot be written, or nobody knows whether it was.
        """
        name = document_name(key)
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:  # those of this process take turns, and leave only the others to be raced with
            return await self._changed(key, name, change)

    async def _changed(self, key: WatermarkKey, name: str, change: Change[T]) -> T:
        race: Race[T] = Race(key, self._clock, self._bucket.address.timeout)
        kept = self._kept.get(name)
        if kept is not None and abs(self._clock.now() - self._kept_at[name]) < _FRESH:
            guess = await self._guess(key, kept, change)
            if guess is not None and await self._went_in(name, kept, guess, race):
                return guess.answer
        while True:
            base = await self._read(name)
            if (winner := race.winner(base)) is not None:
                return winner.answer
            proposal = await self._proposal(key, base, change)
            if proposal.body is None or await self._went_in(name, base, proposal, race):
                return proposal.answer

    async def _guess(self, key: WatermarkKey, kept: Stored, change: Change[T]) -> Proposal[T] | None:
        """Return what changes if the document is still as it is known here; a refusal, or no change, is not sure."""
        try:
            proposal = await self._proposal(key, kept, change)
        except Exception:  # whatever it is, it is met again with the document as it is now
            return None
        return proposal if proposal.body is not None else None

    async def _proposal(self, key: WatermarkKey, base: Stored | None, change: Change[T]) -> Proposal[T]:
        """Return what a change makes of a document, and its answer."""
        tokens, before, document = await _opened(key, base)
        answer = await change(document)
        after = await _encoded(document)
        if after == before:
            return Proposal(answer, "", None)
        if await self._finish(document):
            after = await _encoded(document)
        token = new_token()
        return Proposal(answer, token, await _packed(after, [*tokens, token][-TOKENS:]), tuple(tokens))

    async def _went_in(self, name: str, base: Stored | None, proposal: Proposal[T], race: Race[T]) -> bool:
        outcome = await self._bucket.write(name, proposal.body or b"", base.etag if base else None)
        if isinstance(outcome, str):
            self._keep(name, Stored(outcome, proposal.body or b""))
            return True
        race.note(proposal, outcome)
        await asyncio.sleep(self._bucket.pause(race.attempts))
        return False

    async def _listed(self, name: str, etag: str, *, lenient: bool) -> Document | None:
        kept = self._kept.get(name)
        if kept is None or kept.etag != etag:
            async with self._turn:
                kept = await self._read(name)
        return await _decoded(kept, lenient=lenient) if kept else None

    async def _read(self, name: str) -> Stored | None:
        stored = await self._bucket.read(name, self._kept.get(name))
        if stored is not None:
            self._keep(name, stored)
        return stored

    def _keep(self, name: str, stored: Stored) -> None:
        self._kept[name] = stored
        self._kept.move_to_end(name)
        self._kept_at[name] = self._clock.now()
        while len(self._kept) > 1 and sum(len(each.body) for each in self._kept.values()) > _KEPT_BYTES:
            self._kept_at.pop(self._kept.popitem(last=False)[0])


async def _opened(key: WatermarkKey, base: Stored | None) -> tuple[list[str], str, Document]:
    """Return the tokens, the state and the document of an object, or of none."""
    if base is None:
        document = Document(key)
        return [], written_document(document), document
    document = await _decoded(base, lenient=False)
    return document.tokens, parted(unpacked(base.body))[0], document


async def _decoded(stored: Stored, *, lenient: bool) -> Document:
    if len(stored.body) > _BIG:
        return await asyncio.to_thread(_decode, stored, lenient=lenient)
    return _decode(stored, lenient=lenient)


def _decode(stored: Stored, *, lenient: bool) -> Document:
    return read_document(unpacked(stored.body), lenient=lenient)


async def _encoded(document: Document) -> str:
    records = [each.record for each in (document, document.draft) if each and each.record]
    many = any(len(each.log) > _MANY for each in records)
    return await asyncio.to_thread(written_document, document) if many else written_document(document)


async def _packed(state: str, tokens: list[str]) -> bytes:
    return await asyncio.to_thread(packed, joined(state, tokens))
