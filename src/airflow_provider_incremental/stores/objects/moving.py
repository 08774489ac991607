"""Watermarks that move from or to a store in object storage: page by page, and there all at once with the last."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES, NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.journal import brought
from airflow_provider_incremental.core.snapshot import FIRST, PAGE_BYTES, LoggedBatch, Place, Snapshot
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores._memory_snapshots import add_page, page_of
from airflow_provider_incremental.stores._memory_state import Record, given
from airflow_provider_incremental.stores.objects.document import Document, located, new_token
from airflow_provider_incremental.stores.objects.parts import Parts
from airflow_provider_incremental.stores.objects.segments import Segment, new_segment

__all__ = ["ObjectSnapshots"]


class ObjectSnapshots(Parts):
    """The object store's part in moving watermarks. What came until now is in the document, as a draft."""

    async def export(self, key: WatermarkKey, place: Place = FIRST, page_bytes: int = PAGE_BYTES) -> Snapshot | None:
        """Return a page of all that belongs to a watermark, or None when there is none."""
        store = await self._founding.identity()

        async def work(document: Document) -> Snapshot | None:
            await self._pages.thaw(document, lambda _: True)
            record = document.record
            if record is None:
                return None
            index = await self._memories.index(document.folder, document.memory)
            # What is not read yet weighs as much as what it stands for.
            record.pieces = {name: bytes(size) for name, (_, _, size) in index.pieces.items()}
            for each in record.log.values():
                each.fingerprints = (bytes(FINGERPRINT_BYTES),) * located(each).marks
            return await self._filled(document, record, page_of(record, store, place, page_bytes))

        return await self._documents.reading(key, work, None)

    async def _filled(self, document: Document, record: Record, page: Snapshot) -> Snapshot:
        """Return a page with the contents that it has places for."""

        async def one(each: LoggedBatch) -> LoggedBatch:
            items, marks = await self._segments.whole(document.folder, located(record.log[each.batch.seq]))
            return LoggedBatch(batch=replace(each.batch, items=items), fingerprints=marks)

        batches = await asyncio.gather(*(one(each) for each in page.batches))
        pieces = await self._memories.pick(document.folder, document.memory, sorted(page.pieces))
        return replace(page, batches=tuple(batches), pieces=pieces)

    async def restore(self, page: Snapshot, act: Act | None = None) -> None:
        """Take in one of the pages that another store gave."""
        page.require_sound()
        key = page.watermark.key
        segment = await new_segment(key, min((each.batch.seq for each in page.batches), default=1) - 1, _new(page))
        if page.next is None:
            await self._require_unknown(key, page)

        async def change(document: Document) -> None:
            now = self._clock.now()
            if document.record is not None:
                if page.next is None and given(document.record.watermark) == page.watermark:
                    return
                msg = f"there is a watermark {key} in this store already; nothing was changed"
                raise ConflictError(msg)
            if page.number == 0:
                document.drop_draft(now)
                document.draft = Document(key, new_token())
            draft = document.draft
            if draft is not None and page.number == document.draft_pages - 1:
                return
            if draft is None or page.number != document.draft_pages:
                msg = f"page {page.number} of watermark {key} does not follow the page before; begin with the first"
                raise ConflictError(msg)
            await self._add(draft, page, segment)
            document.draft_pages += 1
            # Nothing of a draft goes into pages: who waits for a batch is only known with the last one.
            if page.next is None:
                document.draft, document.draft_pages = None, 0
                document.generation, document.record, document.memory = draft.generation, draft.record, draft.memory
                document.pages, document.trash = draft.pages, draft.trash
                detail = brought(page.store, page.watermark.version, page.watermark.last_seq)
                document.note("copy", detail, act, now)

        await self._change(key, change)

    async def _add(self, draft: Document, page: Snapshot, segment: Segment) -> None:
        record = draft.record = add_page(draft.record, page)
        record.pieces = {}
        for part, each in zip(segment.parts, page.batches, strict=True):
            record.log[each.batch.seq] = replace(part, batch=record.log[each.batch.seq].batch)
        if segment.name is not None:
            await self.bucket.create(draft.folder + segment.name, segment.body)
        if page.pieces:
            draft.memory, trash = await self._memories.change(draft.folder, draft.memory, dict(page.pieces))
            draft.trash += trash

    async def _require_unknown(self, key: WatermarkKey, page: Snapshot) -> None:
        """Refuse a batch that another watermark has in its document."""
        ids = {each.batch.id for each in page.batches}
        for document in await self._documents.selected(lenient=True):
            log = document.record.log.values() if document.record and document.key != key else ()
            if any(each.batch.id in ids for each in log):
                msg = f"batches of {key} are in this store already, as those of {document.key}; nothing was changed"
                raise ConflictError(msg)


def _new(page: Snapshot) -> list[NewBatch]:
    return [
        NewBatch(
            low=each.batch.low,
            high=each.batch.high,
            items=each.batch.items or (),
            count=each.batch.count,
            kind=each.batch.kind,
            fingerprints=each.fingerprints,
            id=each.batch.id,
        )
        for each in page.batches
    ]
