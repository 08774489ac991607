"""The operations of consumers: each is one change of one document, after a look at all that are selected."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from airflow_provider_incremental.core.batch import Batch, Claim
from airflow_provider_incremental.core.errors import StoreError, StoreUnavailableError
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.core.upkeep import ConsumerStatus, DeadBatch
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_state import Record, first_seq, lost
from airflow_provider_incremental.stores.objects.bucket import MissingObjectError
from airflow_provider_incremental.stores.objects.document import Document, Located, apart, located
from airflow_provider_incremental.stores.objects.parts import Parts, records_of
from airflow_provider_incremental.stores.starting import start_on

__all__ = ["ObjectConsumers"]

_MISSING = 2
"""Times that a batch's items may be gone since its document was read, before something is wrong."""


class ObjectConsumers(Parts):
    """What consumers do; see :class:`core.store.WatermarkStore` for each operation."""

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str] = ()
    ) -> list[WatermarkKey]:
        """Make a consumer known on every selected watermark where it is not, and return the selected watermarks."""

        async def change(document: Document) -> bool:
            record = document.record
            if record is None:
                return False
            begin = start_on(record.watermark.created_at, met_at, start)
            if consumer not in record.consumers and begin == "earliest":
                await self._pages.thaw(document, lambda _: True)
            elif consumer not in record.consumers:
                await self._pages.thaw_those(document, named)
                first = first_seq(record, begin, named)
                await self._pages.thaw(document, lambda page: page.last >= first)
            _changes.subscribe(record, consumer, begin, named, self._clock.now())
            return True

        documents = await self._there(Selector(selector.asset_name))
        met_at = _changes.met_at(records_of(documents), consumer)
        selected = [each.key for each in documents if selector.matches(each.key)]
        return [key for key in selected if await self._change(key, change)]

    async def claim(
        self,
        selector: Selector,
        consumer: str,
        holder: str,
        lease: float,
        batch_id: str | None = None,
        *,
        ordered: bool = False,
    ) -> Claim | None:
        """Take the oldest batch that the consumer has not finished and nobody holds, with its items; or None."""
        patient_for, attempt, missing = self.bucket.address.timeout, 0, 0
        deadline = asyncio.get_running_loop().time() + patient_for
        unreadable: dict[str, StoreError] = {}
        while True:
            documents = {each.key: each for each in await self._there(selector)}
            wanted = await _wanted(records_of(list(documents.values())), consumer)
            now = self._clock.now()
            found = _changes.claimable(wanted, holder, batch_id, now, ordered=ordered, unreadable=unreadable)
            if found is None and unreadable:
                raise next(iter(unreadable.values()))
            if found is None:
                return None
            chosen, late = located(found[0]), asyncio.get_running_loop().time() > deadline
            # Before it is taken: what cannot be read costs no attempt.
            items = await self._items(documents[chosen.batch.key], chosen)
            if isinstance(items, MissingObjectError):
                missing += 1
                if late or missing > _MISSING:
                    raise items
            elif isinstance(items, StoreError):
                unreadable[chosen.batch.id] = items  # it keeps the others from nobody
                continue
            else:
                claim = await self._taken(chosen, consumer, holder, lease, items, ordered=ordered)
                if claim is not None:
                    return claim
            if late:
                msg = f"{consumer} could not claim a batch in {patient_for:g} s: others were always first"
                raise StoreUnavailableError(msg)
            attempt += 1
            await asyncio.sleep(self.bucket.pause(attempt))

    async def _items(self, document: Document, chosen: Located) -> list[Any] | StoreError:
        """Return the items of a batch, or why they cannot be read.

        :raises StoreUnavailableError: when that may be otherwise in a moment.
        """
        try:
            return await self._segments.items(document.folder, chosen)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            return error

    async def _taken(
        self, chosen: Located, consumer: str, holder: str, lease: float, items: list[Any], *, ordered: bool
    ) -> Claim | None:
        """Take a batch, if it can still be had."""

        async def change(document: Document) -> Claim | None:
            now = self._clock.now()
            wanted = await _wanted(records_of([document]), consumer)
            found = _changes.claimable(wanted, holder, chosen.batch.id, now, ordered=ordered)
            if found is None:
                return None
            each, known = found
            work = known.take(each.batch, holder, lease, now)
            return Claim(
                batch=replace(each.listed(with_items=False), items=items),
                consumer=consumer,
                holder=holder,
                attempt=work.attempt,
                lease_until=work.lease_until,
            )

        return await self._change(chosen.batch.key, change)

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """Extend a claim to ``lease`` seconds from now."""

        async def change(document: Document) -> Claim:
            return _changes.renew(document.record, claim, lease, self._clock.now())

        renewed = await self._change(claim.batch.key, change)
        return replace(claim, lease_until=renewed.lease_until)

    async def acknowledge(self, claim: Claim) -> None:
        """Record that the consumer has finished the batch; it never gets it again."""

        async def change(document: Document) -> None:
            if await self._is_settled(document, claim):
                return
            _changes.acknowledge(document.record, claim, self._clock.now())

        await self._change(claim.batch.key, change)

    async def _is_settled(self, document: Document, claim: Claim) -> bool:
        """Whether a claim is of a batch that its consumer has finished long ago, and by this claim."""
        record, seq = document.record, claim.batch.seq
        known = record.consumers.get(claim.consumer) if record else None
        if record is None or known is None or seq in record.log:
            return False
        for page in [page for page in document.pages if page.first <= seq <= page.last]:
            for each, by in await self._pages.rows(document, page):
                since, work = by.get(claim.consumer, (None, None))
                if each.batch.seq == seq and work is not None and since == known.first_seen_at:
                    if not _changes.is_of(work, claim):
                        raise lost(claim)
                    return True
        return False

    async def release(
        self, claim: Claim, error: str | None = None, *, retry_after: float = 0.0, dead: bool = False
    ) -> None:
        """Give a batch back, to be claimed again, or set it aside; the error is kept with the attempt."""

        async def change(document: Document) -> None:
            now = self._clock.now()
            _changes.release(document.record, claim, error, retry_after, now, dead=dead)

        await self._change(claim.batch.key, change)

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """Set aside what a consumer took so often, did not finish, and does not hold."""

        async def change(document: Document) -> list[DeadBatch]:
            record = document.record
            return _changes.bury(record, consumer, max_attempts, self._clock.now()) if record else []

        buried = []
        for each in await self._there(selector):
            if each.record and _changes.bury(each.record, consumer, max_attempts, self._clock.now()):
                buried += await self._change(each.key, change)
        return buried

    async def pending(self, selector: Selector, consumer: str, limit: int = 1000, *, free: bool = False) -> list[Batch]:
        """Return the batches that a known consumer has not finished, oldest first, without items."""
        now = self._clock.now()
        wanted = await _wanted(records_of(await self._there(selector)), consumer)
        chosen = [each for each, known in wanted if not free or known.can_take(each.batch, now)]
        return [each.listed(with_items=False) for each in chosen[:limit]]

    async def dead_batches(
        self, selector: Selector | None = None, consumer: str | None = None, limit: int = 1000
    ) -> list[DeadBatch]:
        """Return the batches that were set aside, of one consumer or of all, oldest first."""
        return _changes.dead_batches(records_of(await self._there(selector)), consumer)[:limit]

    async def consumers(self, selector: Selector | None = None) -> list[ConsumerStatus]:
        """Return every known consumer of every selected watermark, by watermark and name."""
        records = records_of(await self._there(selector))
        return [record.status(name) for record in records for name in sorted(record.consumers)]

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """Whether the consumer has acknowledged this batch."""
        documents = await self._there(selector)
        if any(_changes.has_acknowledged(record, consumer, batch_id) for record in records_of(documents)):
            return True
        for document in documents:
            known = document.record.consumers.get(consumer) if document.record else None
            for page in reversed(document.pages) if known else ():
                for each, by in await self._pages.rows(document, page, lenient=True):
                    if each.batch.id == batch_id:
                        return known is not None and by.get(consumer, (None,))[0] == known.first_seen_at
        return False


async def _wanted(records: list[Record], consumer: str) -> list[_changes.Wanted]:
    longest = max(records, key=lambda record: len(record.log), default=None)
    return await apart(longest, _changes.wanted, records, consumer) if longest else []
