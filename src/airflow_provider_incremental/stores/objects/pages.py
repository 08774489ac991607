"""Pages: immutable objects with batches that nobody waits for, so that a document does not grow with its history.

What is in a page was announced, and every consumer that is known has finished it. It goes back into the document when
that changes: for a replay, for a consumer that begins with the whole log, or to be deleted.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import operator
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.stores._memory_state import Record, Work
from airflow_provider_incremental.stores.objects.bucket import Bucket
from airflow_provider_incremental.stores.objects.codec import Settled, packed, read_page, unpacked, write_page
from airflow_provider_incremental.stores.objects.document import Document, Located, Page, apart, located, new_token

__all__ = ["PAGE", "Pages", "settled"]

PAGE = 200
"""Batches of a page."""
_STAY = 20
"""Batches that nobody waits for any more and that stay in the document all the same: the next poll asks for them."""
_KEPT = 64
_UNREADABLE = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, EOFError, OSError)


def settled(record: Record) -> list[Located]:
    """Return the batches that nobody waits for, oldest first."""
    return [
        located(each)
        for each in record.log.values()
        if (each.batch.announced_at is not None or each.batch.kind == "baseline")
        and not any(
            known.wants(each.batch) or _dead(known.work.get(each.batch.seq)) for known in record.consumers.values()
        )
    ]


def _dead(work: Work | None) -> bool:
    return work is not None and work.state == "dead"


class Pages:
    """The pages of a bucket.

    :param size: batches of a page.
    """

    def __init__(self, *, bucket: Bucket, size: int = PAGE) -> None:
        self._bucket = bucket
        self._size = size
        self._texts: OrderedDict[str, str] = OrderedDict()

    async def freeze(self, document: Document) -> bool:
        """Move the oldest batches that nobody waits for into pages, if they fill any; whether they did."""
        record, before = document.record, len(document.pages)
        most = self._size + min(self._size, _STAY)
        if record is None or len(record.log) <= most:
            return False
        oldest = await apart(record, settled, record)
        while len(oldest) > most:
            chosen, oldest = oldest[: self._size], oldest[self._size :]
            rows = [(each, _finished(record, each.batch.seq)) for each in chosen]
            text = await asyncio.to_thread(write_page, rows)
            seqs = [each.batch.seq for each in chosen]
            page = Page(
                f"p-{seqs[0]:010}-{new_token()}",
                seqs[0],
                seqs[-1],
                len(seqs),
                min(each.batch.committed_at for each in chosen if each.batch.committed_at),
            )
            await self._bucket.create(document.folder + page.name, packed(text))
            document.pages = sorted([*document.pages, page], key=lambda each: each.first)
            for seq in seqs:
                del record.log[seq]
                for known in record.consumers.values():
                    known.work.pop(seq, None)
        return len(document.pages) > before

    async def thaw(self, document: Document, which: Callable[[Page], bool]) -> None:
        """Take the batches of pages back into the document."""
        record = document.record
        chosen = [page for page in document.pages if which(page)]
        if record is None or not chosen:
            return
        for page in chosen:
            for each, by in await self.rows(document, page):
                record.log[each.batch.seq] = each
                for name, (since, work) in by.items():
                    known = record.consumers.get(name)
                    if known is not None and known.first_seen_at == since:
                        known.work[each.batch.seq] = work
        record.log = dict(sorted(record.log.items()))
        document.pages = [page for page in document.pages if page not in chosen]
        document.trash += [page.name for page in chosen]

    async def thaw_those(self, document: Document, batch_ids: Collection[str]) -> None:
        """Take back into the document, with their pages, those of some batches that are in one."""
        missing = set(batch_ids)
        if document.record is not None:
            missing -= {each.batch.id for each in document.record.log.values()}
        for page in reversed(document.pages):
            if not missing:
                break
            found = missing & {each.batch.id for each, _ in await self.rows(document, page)}
            if found:
                missing -= found
                await self.thaw(document, partial(operator.eq, page))

    async def rows(self, document: Document, page: Page, *, lenient: bool = False) -> list[Settled]:
        """Return the batches of a page, oldest first, each time anew.

        :raises MissingObjectError: when the page is not there any more.
        """
        name = document.folder + page.name
        if name not in self._texts:
            self._texts[name] = unpacked(await self._bucket.read_whole(name))
            while len(self._texts) > _KEPT:
                self._texts.popitem(last=False)
        self._texts.move_to_end(name)
        try:
            return await asyncio.to_thread(read_page, document.key, self._texts[name], lenient=lenient)
        except _UNREADABLE as error:
            msg = f"the object {name} of watermark {document.key} cannot be read here: {describe(error)}"
            raise StoreError(msg) from error

    async def newest_first(
        self, document: Document, after_seq: int, before_seq: int | None, limit: int
    ) -> Sequence[Located]:
        """Return batches of the log by their numbers, both ends left out, with those of pages."""
        if limit <= 0 or document.record is None:
            return []
        inside = [located(each) for each in document.record.log.values()]
        inside = [each for each in inside if _between(each, after_seq, before_seq)]
        for page in sorted(document.pages, key=lambda page: page.last, reverse=True):
            enough = len(inside) >= limit and sorted(each.batch.seq for each in inside)[-limit] > page.last
            if enough or page.last <= after_seq:
                break
            if before_seq is None or page.first < before_seq:
                rows = await self.rows(document, page, lenient=True)
                inside += [each for each, _ in rows if _between(each, after_seq, before_seq)]
        return sorted(inside, key=lambda each: each.batch.seq, reverse=True)[:limit]


def _between(each: Located, after_seq: int, before_seq: int | None) -> bool:
    return after_seq < each.batch.seq and (before_seq is None or each.batch.seq < before_seq)


def _finished(record: Record, seq: int) -> dict[str, tuple[dt.datetime, Work]]:
    return {
        name: (known.first_seen_at, known.work[seq]) for name, known in record.consumers.items() if seq in known.work
    }
