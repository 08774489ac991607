"""The store in object storage: an object for each watermark, moved by compare-and-swap on its tag.

What is true at every ``await``: what a document names is there. Items, memories and pages are written before the
document that names them, under names that are used once, and deleted only when a later document, which does not name
them, is what everybody reads. So one conditional write is the transaction of every operation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_incremental.core.batch import Batch, NewBatch, SeenBatch, inlined
from airflow_provider_incremental.core.journal import FORGOTTEN, REWATCHED
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_state import copied, given, require_unused
from airflow_provider_incremental.stores.objects.consumers import ObjectConsumers
from airflow_provider_incremental.stores.objects.document import Document, MemoryPlace, apart, located
from airflow_provider_incremental.stores.objects.moving import ObjectSnapshots
from airflow_provider_incremental.stores.objects.segments import Segment, new_segment
from airflow_provider_incremental.stores.objects.upkeep import ObjectUpkeep

__all__ = ["ObjectStore"]


class ObjectStore(ObjectConsumers, ObjectUpkeep, ObjectSnapshots):
    """Watermarks in S3 or a service like it; see :class:`core.store.WatermarkStore` for what each operation does.

    It belongs to one event loop. Nothing is asked of the service before the first operation.

    :param address: the bucket and the prefix, which nothing else uses.
    :param client: gives the context of an aiobotocore S3 client, as :class:`wiring.connections.S3ClientFactory` does.
    :param clock: what time it is; by default the object storage's own, from the dates of its answers.
    :param page: batches that are moved out of a watermark's object at once when nobody waits for them.

    Example::

        store = ObjectStore(address=ObjectAddress.parse("s3://watermarks/prod"), client=S3ClientFactory(...))
        for watermark in await store.list_watermarks():
            print(watermark.key, watermark.cursor)
        await store.aclose()
    """

    async def identity(self) -> str:
        """Return the id that this store got when it was made."""
        return await self._founding.identity()

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """Return a watermark with its status, or None when nobody registered it."""
        document = await self._documents.get(key)
        return given(document.record.watermark) if document and document.record else None

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """Make a watermark unless it is there, and record what it watches unless that is known."""

        async def change(document: Document) -> Watermark:
            record = document.made(self._clock.now())
            _changes.register(record, watches)
            return given(record.watermark)

        return await self._change(key, change)

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces = NOTHING,
    ) -> tuple[Watermark, list[Batch]]:
        """Move a watermark from the version that was loaded to the next, and append batches: all or nothing."""
        cursor = copied(high)
        segment = await new_segment(watermark.key, watermark.last_seq, batches)
        written: dict[str, tuple[MemoryPlace | None, list[str]]] = {}

        async def change(document: Document) -> tuple[Watermark, list[Batch]]:
            record = _changes.require_unmoved(document.record, watermark)
            require_unused({each.batch.id for each in record.log.values()}, [each.batch.id for each in segment.parts])
            if document.generation not in written:  # as long as the version is the same, so is the memory
                await self._empty_trash(document)
                written[document.generation] = await self._write_beside(document, segment, remember)
            now = self._clock.now()
            new = segment.numbered(record.watermark.last_seq, now)
            record.move(cursor, list(new), report, now)
            document.memory, trash = written[document.generation]
            document.trash = [*document.trash, *trash]
            return given(record.watermark), [each.listed(with_items=False) for each in new]

        return await self._change(watermark.key, change)

    async def _write_beside(
        self, document: Document, segment: Segment, remember: Pieces
    ) -> tuple[MemoryPlace | None, list[str]]:
        """Write what the document will name; returns the memory then, and what it does not need any more."""
        kept = document.memory, list[str]()
        if remember:
            kept = await self._memories.change(document.folder, document.memory, remember)
        if segment.name is not None:
            await self.bucket.create(document.folder + segment.name, segment.body)
        return kept

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return pieces of the source's memory, in order of their names."""

        async def work(document: Document) -> list[tuple[str, bytes]]:
            return await self._memories.read(document.folder, document.memory, prefix, after, limit)

        return await self._documents.reading(key, work, [])

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """Record how a poll went; the version does not move."""

        async def change(document: Document) -> None:
            if document.record is not None:
                _changes.report(document.record, report, self._clock.now())

        await self._change(key, change)

    async def due(
        self,
        key: WatermarkKey,
        redeliver_after: float,
        skip: Collection[int] = (),
        inline_bytes: int = 0,
        limit: int = 1000,
    ) -> list[Batch]:
        """Return the batches that should be announced now, oldest first."""

        async def work(document: Document) -> list[Batch]:
            now, record = self._clock.now(), document.record
            due = (await apart(record, record.due, redeliver_after, skip, now))[:limit] if record else []
            inline = inlined((each.batch.items_bytes for each in due), inline_bytes)
            return await self._segments.with_items(document.folder, zip(map(located, due), inline, strict=True))

        return await self._documents.reading(key, work, [])

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """Record that the batches that are due are announced now; or say how long that has to wait."""

        async def change(document: Document) -> float:
            record = document.record
            if record is None:
                return interval
            return await apart(record, record.begin_announcement, up_to_seq, interval, self._clock.now())

        return await self._change(key, change)

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """Record that Airflow has stored the event that names these batches."""

        async def change(document: Document) -> None:
            if document.record is not None:
                await self._pages.thaw_those(document, batch_ids)
                await apart(document.record, _changes.confirm, document.record, batch_ids, self._clock.now())

        await self._change(key, change)

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """Return fingerprints of the batches with ``after_seq < seq < before_seq``, newest first."""

        async def work(document: Document) -> list[SeenBatch]:
            chosen = await self._pages.newest_first(document, after_seq, before_seq, limit)
            return await self._segments.seen(document.folder, chosen)

        return await self._documents.reading(key, work, [])

    async def history(self, key: WatermarkKey, before_seq: int | None = None, limit: int = 100) -> list[Batch]:
        """Return the log of a watermark, newest first, with items, from before a sequence number."""

        async def work(document: Document) -> list[Batch]:
            chosen = await self._pages.newest_first(document, 0, before_seq, limit)
            return await self._segments.with_items(document.folder, ((each, True) for each in chosen))

        return await self._documents.reading(key, work, [])

    async def list_watermarks(self, selector: Selector | None = None) -> list[Watermark]:
        """Return watermarks by asset name, namespace and key."""
        return [given(each.record.watermark) for each in await self._there(selector) if each.record]

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool = False, act: Act | None = None
    ) -> Watermark:
        """Set the cursor to any position, whatever the version; a poll under way gets a conflict."""
        place = copied(cursor)

        async def change(document: Document) -> Watermark:
            now = self._clock.now()
            record = document.made(now)
            detail = _changes.rewind(record, place, now, reread=reread, rewatch=rewatch)
            document.memory = None if rewatch else document.memory
            document.note("rewind", detail, act, now)
            return given(record.watermark)

        return await self._change(key, change)

    async def rewatch(self, key: WatermarkKey, act: Act | None = None) -> Watermark | None:
        """Forget what is watched and keep the position, or that there is none yet."""

        async def change(document: Document) -> Watermark | None:
            if document.record is None:
                return None
            _changes.rewatch(document.record)
            document.memory = None
            document.note("rewatch", REWATCHED, act, self._clock.now())
            return given(document.record.watermark)

        return await self._change(key, change)

    async def forget(self, key: WatermarkKey, act: Act | None = None) -> bool:
        """Delete a watermark with its batches, claims and consumers; whether there was one."""

        async def change(document: Document) -> bool:
            if document.record is None:
                return False
            now = self._clock.now()
            document.forget(now)
            document.note("forget", FORGOTTEN, act, now)
            return True

        there = await self._change(key, change)
        await self.clear_left(key)
        return there

    async def aclose(self) -> None:
        """Give the client back. The store may not be used afterwards."""
        await self.bucket.aclose()
