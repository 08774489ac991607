"""What keeps a store in object storage in order: replays, retention, the journal, and what crashes have left behind."""

from __future__ import annotations

import asyncio
import datetime as dt

from airflow_provider_incremental.core.journal import UNSUBSCRIBED, replayed
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act, JournalEntry
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores.objects.document import Document, Page, folder_of, located
from airflow_provider_incremental.stores.objects.parts import Parts

__all__ = ["GARBAGE_AFTER", "ObjectUpkeep"]

GARBAGE_AFTER = dt.timedelta(days=1)
"""An object that no document names is deleted when it is so old: no commit that is still under way has written it."""


class ObjectUpkeep(Parts):
    """What people do by hand, and what feeds do beside their polls."""

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None = None) -> list[WatermarkKey]:
        """Forget a consumer with its claims: nothing is kept or announced for it."""

        async def change(document: Document) -> bool:
            record = document.record
            if record is None or record.consumers.pop(consumer, None) is None:
                return False
            document.note("unsubscribe", UNSUBSCRIBED.format(consumer), act, self._clock.now())
            return True

        known = [each.key for each in await self._there(selector) if each.record and consumer in each.record.consumers]
        return [key for key in known if await self._change(key, change)]

    async def replay(
        self,
        key: WatermarkKey,
        first_seq: int,
        last_seq: int,
        *,
        consumer: str | None = None,
        dead_only: bool = False,
        act: Act | None = None,
    ) -> dict[str, int]:
        """Give batches of the log to a consumer again, or to all that are known."""

        async def change(document: Document) -> dict[str, int]:
            record, now = document.record, self._clock.now()
            if record is None:
                return {}
            if not dead_only:  # what is dead is never in a page
                # What was before a start is marked as such when the start goes back: that may be far behind the range.
                meant = [known.start_seq for name, known in record.consumers.items() if consumer in (None, name)]
                last = max(last_seq, *meant) if meant else last_seq
                await self._pages.thaw(document, lambda page: page.first <= last and page.last >= first_seq)
            given = _changes.replay(record, first_seq, last_seq, consumer, now, dead_only=dead_only)
            document.note("replay", replayed(first_seq, last_seq, given, dead_only=dead_only), act, now)
            return given

        return await self._change(key, change)

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int = 1000) -> int:
        """Delete the oldest batches that nobody needs, with their claims, and what crashes have left behind."""

        async def change(document: Document) -> int:
            record, now = document.record, self._clock.now()
            if record is None:
                return 0
            old = now - dt.timedelta(seconds=older_than)
            await self._empty_trash(document)
            await self._thaw_oldest(document, old, before_seq, limit)
            needless = record.needless(before_seq, old)[:limit]
            dropped = [located(record.log.pop(seq)) for seq in needless]
            for known in record.consumers.values():
                for seq in needless:
                    known.work.pop(seq, None)
            left = {located(each).segment for each in record.log.values()}
            for name in {each.segment for each in dropped if each.segment} - left:
                seqs = [each.batch.seq for each in dropped if each.segment == name]
                # Where a page is between them, it may need the segment as well: what nobody needs is found later.
                if not any(page.first <= seqs[-1] + len(seqs) and page.last >= seqs[0] for page in document.pages):
                    document.trash.append(name)
            document.trash.sort()
            return len(needless)

        count = await self._change(key, change)
        await self._sweep(key)
        return count

    async def _thaw_oldest(self, document: Document, old: dt.datetime, before_seq: int, limit: int) -> None:
        """Take those pages back from which something may be deleted."""
        chosen: list[Page] = []
        for page in document.pages:
            if page.oldest < old and page.first < before_seq and sum(each.count for each in chosen) < limit:
                chosen.append(page)
        await self._pages.thaw(document, lambda page: page in chosen)

    async def journal(self, key: WatermarkKey | None = None, limit: int = 100) -> list[JournalEntry]:
        """Return what was done by hand, newest first; also of watermarks that were forgotten."""
        if key is not None:
            document = await self._documents.get(key, lenient=True)
            return await self._journal.newest(document, limit) if document else []
        documents = await self._documents.selected(lenient=True)
        found = await asyncio.gather(*(self._journal.newest(each, limit) for each in documents))
        entries = [entry for entries in found for entry in entries]
        return sorted(entries, key=lambda entry: entry.at, reverse=True)[:limit]

    async def clear_left(self, key: WatermarkKey) -> None:
        """Delete what a watermark had before it was forgotten."""
        document = await self._documents.get(key, lenient=True)
        if document is None or not document.left:
            return
        for generation in document.left:
            listed = await self.bucket.names(folder_of(key.id, generation))
            await self.bucket.delete([each.name for each in listed])

        async def change(document: Document) -> None:
            # Not before: a commit that was under way when it was forgotten may still write its items there.
            over = self._clock.now() - GARBAGE_AFTER
            document.left = {generation: at for generation, at in document.left.items() if at > over}

        await self._change(key, change)

    async def _sweep(self, key: WatermarkKey) -> None:
        """Once a day, delete what no document names and no commit under way can have written."""
        now = self._clock.now()

        async def change(document: Document) -> bool:
            # In the document, before anything is deleted: a commit that stood still for a day begins anew then.
            if document.record is None or (document.swept_at and now - document.swept_at < GARBAGE_AFTER):
                return False
            document.swept_at = now
            return True

        if not await self._change(key, change):
            return
        await self.clear_left(key)
        document = await self._documents.get(key)
        if document is None or document.record is None:
            return
        needed = await self._needed(document)
        listed = await self.bucket.names(document.folder)
        old = [each.name for each in listed if each.written_at < now - GARBAGE_AFTER]
        await self.bucket.delete([name for name in old if name.removeprefix(document.folder) not in needed])

    async def _needed(self, document: Document) -> set[str]:
        """Return every object that a document leads to."""
        needed = set(document.trash)  # of which somebody else takes care
        batches = [located(each) for each in document.record.log.values()] if document.record else []
        for page in document.pages:
            needed.add(page.name)
            batches += [each for each, _ in await self._pages.rows(document, page, lenient=True)]
        needed |= {each.segment for each in batches if each.segment}
        if document.memory is not None:
            index = await self._memories.index(document.folder, document.memory)
            needed |= {document.memory.name, *index.blobs}
        return needed
