"""Records of the memory store as pages, and back: shared by every store that keeps its watermarks as such records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.journal import brought
from airflow_provider_incremental.core.snapshot import (
    CONSUMER_WEIGHT,
    FIRST,
    PAGE_BYTES,
    PIECE_WEIGHT,
    SECTIONS,
    BatchWork,
    KnownConsumer,
    LoggedBatch,
    Place,
    Section,
    Snapshot,
    batch_weight,
    work_weight,
)
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores._memory_state import (
    Consumer,
    Logged,
    Record,
    Work,
    copied,
    given,
)
from airflow_provider_incremental.stores._memory_upkeep import MemoryUpkeep

__all__ = ["MemorySnapshots", "add_page", "page_of"]


@dataclass(frozen=True, slots=True)
class _Part:
    section: Section
    name: str
    seq: int
    weight: int
    value: Callable[[], Any]

    def behind(self, place: Place) -> bool:
        mine, its = SECTIONS.index(self.section), SECTIONS.index(place.section)
        return (mine, self.name, self.seq) > (its, place.name, place.seq)


def page_of(record: Record, store: str, place: Place, page_bytes: int) -> Snapshot:
    """Return a page of a record.

    :param store: the identity of the store that has it.
    """
    parts: list[_Part] = []
    room, following = page_bytes, None
    for part in _parts(record):
        if not part.behind(place):
            continue
        if parts and part.weight > room:
            following = Place(
                number=place.number + 1, section=parts[-1].section, name=parts[-1].name, seq=parts[-1].seq
            )
            break
        parts.append(part)
        room -= part.weight
    values = {section: tuple(part.value() for part in parts if part.section == section) for section in SECTIONS}
    return Snapshot(
        store=store,
        watermark=given(record.watermark),
        announced_at=record.announced_at,
        announced_seq=record.announced_seq,
        number=place.number,
        pieces=dict(values["pieces"]),
        batches=values["batches"],
        work=values["work"],
        consumers=values["consumers"],
        next=following,
    )


def add_page(record: Record | None, page: Snapshot) -> Record:
    """Return the record that a page completes, or adds to.

    :param record: what the pages before it made; None for the first.
    """
    record = record or Record(page.watermark)
    record.watermark = given(page.watermark)
    record.announced_at, record.announced_seq = page.announced_at, page.announced_seq
    record.pieces |= {name: bytes(piece) for name, piece in page.pieces.items()}
    record.log |= {each.batch.seq: _logged(each) for each in page.batches}
    for each in page.consumers:
        record.consumers[each.consumer] = Consumer(each.start_seq, each.last_seen_at, each.first_seen_at)
    for work in page.work:
        known = record.consumers.get(work.consumer)
        if known is not None and work.seq in record.log:
            stamps = {"lease_until": work.lease_until, "stamped_at": work.stamped_at}
            known.work[work.seq] = Work(work.state, work.holder, work.attempt, error=work.error, **stamps)
    return record


class MemorySnapshots(MemoryUpkeep):
    """The memory store's part in moving watermarks. Pages wait apart until the last one is there."""

    def __init__(self, *, clock: Clock, identity: str) -> None:
        super().__init__(clock=clock)
        self._identity = identity
        self._waiting: dict[WatermarkKey, tuple[int, Record]] = {}

    async def export(self, key: WatermarkKey, place: Place = FIRST, page_bytes: int = PAGE_BYTES) -> Snapshot | None:
        """Return a page of all that belongs to a watermark, or None when there is none."""
        with self._lock:
            record = self._records.get(key)
            return page_of(record, self._identity, place, page_bytes) if record else None

    async def restore(self, page: Snapshot, act: Act | None = None) -> None:
        """Take in one of the pages that another store gave."""
        page.require_sound()
        key = page.watermark.key
        with self._lock:
            if key in self._records:
                if page.next is None and given(self._records[key].watermark) == page.watermark:
                    return
                msg = f"there is a watermark {key} in this store already; nothing was changed"
                raise ConflictError(msg)
            pages, record = self._waiting.get(key, (0, None)) if page.number else (0, None)
            if page.number == pages - 1:
                return
            if page.number != pages:
                msg = f"page {page.number} of watermark {key} does not follow the page before; begin with the first"
                raise ConflictError(msg)
            whole = add_page(record, page)
            if page.next is not None:
                self._waiting[key] = (pages + 1, whole)
                return
            ids = {each.batch.id for each in whole.log.values()}
            if ids & self._ids:
                msg = f"batches of {key} are in this store already, under another watermark; nothing was changed"
                raise ConflictError(msg)
            self._ids |= ids
            self._records[key] = whole
            self._waiting.pop(key, None)
            self._note(key, "copy", brought(page.store, page.watermark.version, page.watermark.last_seq), act)


def _parts(record: Record) -> Iterator[_Part]:
    """Yield all that a record has, in the order of the pages."""
    for name, piece in sorted(record.pieces.items()):
        yield _Part("pieces", name, 0, len(piece) + PIECE_WEIGHT, partial(lambda *each: each, name, piece))
    for seq, each in sorted(record.log.items()):
        weight = batch_weight(each.batch, each.fingerprints)
        yield _Part("batches", "", seq, weight, partial(_batch, each))
    for name, known in sorted(record.consumers.items()):
        yield _Part("consumers", name, 0, CONSUMER_WEIGHT, partial(_known, name, known))
    for name, known in sorted(record.consumers.items()):
        for seq, work in sorted(known.work.items()):
            yield _Part("work", name, seq, work_weight(work.error), partial(_work, name, seq, work))


def _batch(each: Logged) -> LoggedBatch:
    return LoggedBatch(batch=each.listed(with_items=True), fingerprints=each.fingerprints)


def _known(name: str, known: Consumer) -> KnownConsumer:
    seen = {"first_seen_at": known.first_seen_at, "last_seen_at": known.seen_at}
    return KnownConsumer(consumer=name, start_seq=known.start_seq, **seen)


def _work(consumer: str, seq: int, work: Work) -> BatchWork:
    return BatchWork(
        consumer=consumer,
        seq=seq,
        state=work.state,
        holder=work.holder,
        attempt=work.attempt,
        lease_until=work.lease_until,
        stamped_at=work.stamped_at,
        error=work.error,
    )


def _logged(each: LoggedBatch) -> Logged:
    batch, items = each.batch, dumps(each.batch.items)
    listed = replace(batch, low=copied(batch.low), high=copied(batch.high), items=None, items_bytes=len(items))
    return Logged(listed, items, tuple(each.fingerprints))
