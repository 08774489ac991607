"""A store in this process's memory: the reference for every other one, and the store for tests of DAGs and triggers.

Everything lasts as long as the object does, so a test "restarts" a trigger by making another one on the same store.
What goes in and out passes through the JSON codec: what no real store could keep is refused here as well, and nobody
holds a reference into the store. One lock makes each operation one transaction, in whichever thread or loop it runs.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch, SeenBatch, inlined
from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.journal import FORGOTTEN, REWATCHED
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_snapshots import MemorySnapshots
from airflow_provider_incremental.stores._memory_state import copied, given, logged, require_unused
from airflow_provider_incremental.stores.once import OnceInMemory
from airflow_provider_incremental.stores.starting import start_on

__all__ = ["MemoryStore"]


class MemoryStore(MemorySnapshots, OnceInMemory):
    """Watermarks, batches and claims in memory; see :class:`core.store.WatermarkStore` for what each operation does.

    :param clock: what time it is; a test passes its own.
    :param identity: the id that travels in announcements; a new one by default.

    >>> import asyncio
    >>> asyncio.run(MemoryStore(identity="mine").identity())
    'mine'
    """

    def __init__(self, *, clock: Clock | None = None, identity: str | None = None) -> None:
        super().__init__(clock=clock or SystemClock(), identity=identity or str(uuid.uuid4()))

    async def identity(self) -> str:
        """Return the id that this store got when it was made."""
        return self._identity

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """Return a watermark with its status, or None when nobody registered it."""
        with self._lock:
            record = self._records.get(key)
            return given(record.watermark) if record else None

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """Make a watermark unless it is there, and record what it watches unless that is known."""
        with self._lock:
            record = self._made(key)
            _changes.register(record, watches)
            return given(record.watermark)

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces = NOTHING,
    ) -> tuple[Watermark, list[Batch]]:
        """Move a watermark from the version that was loaded to the next, and append batches: all or nothing."""
        with self._lock:
            record = _changes.require_unmoved(self._records.get(watermark.key), watermark)
            now = self._clock.now()
            new = [
                logged(watermark.key, each, seq, now) for seq, each in enumerate(batches, record.watermark.last_seq + 1)
            ]
            cursor, ids = copied(high), [each.batch.id for each in new]
            require_unused(self._ids, ids)
            self._ids.update(ids)
            record.move(cursor, new, report, now)
            record.remember(remember)
            return given(record.watermark), [each.listed(with_items=False) for each in new]

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return pieces of the source's memory, in order of their names."""
        with self._lock:
            record = self._records.get(key)
            return record.remembered(prefix, after)[:limit] if record else []

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """Record how a poll went; the version does not move."""
        with self._lock:
            record = self._records.get(key)
            if record is not None:
                _changes.report(record, report, self._clock.now())

    async def due(
        self,
        key: WatermarkKey,
        redeliver_after: float,
        skip: Collection[int] = (),
        inline_bytes: int = 0,
        limit: int = 1000,
    ) -> list[Batch]:
        """Return the batches that should be announced now, oldest first."""
        now = self._clock.now()
        with self._lock:
            record = self._records.get(key)
            due = record.due(redeliver_after, skip, now)[:limit] if record else []
            inline = inlined((each.batch.items_bytes for each in due), inline_bytes)
            return [each.listed(with_items=inline) for each, inline in zip(due, inline, strict=True)]

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """Record that the batches that are due are announced now; or say how long that has to wait."""
        now = self._clock.now()
        with self._lock:
            record = self._records.get(key)
            return record.begin_announcement(up_to_seq, interval, now) if record else interval

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """Record that Airflow has stored the event that names these batches."""
        now = self._clock.now()
        with self._lock:
            record = self._records.get(key)
            if record is not None:
                _changes.confirm(record, batch_ids, now)

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """Return fingerprints of the batches with ``after_seq < seq < before_seq``, newest first."""
        with self._lock:
            return [
                SeenBatch(each.batch.seq, copied(each.batch.high), each.fingerprints)
                for each in reversed(self._log(key))
                if after_seq < each.batch.seq and (before_seq is None or each.batch.seq < before_seq)
            ][:limit]

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str] = ()
    ) -> list[WatermarkKey]:
        """Make a consumer known on every selected watermark where it is not, and return the selected watermarks."""
        now = self._clock.now()
        with self._lock:
            selected = list(self._selected(selector))
            met_at = _changes.met_at(self._selected(Selector(selector.asset_name)), consumer)
            for record in selected:
                begin = start_on(record.watermark.created_at, met_at, start)
                _changes.subscribe(record, consumer, begin, named, now)
            return [record.watermark.key for record in selected]

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
        """Take the oldest batch that the consumer has not acknowledged and nobody holds, with its items; or None."""
        now = self._clock.now()
        with self._lock:
            wanted = _changes.wanted(self._selected(selector), consumer)
            found = _changes.claimable(wanted, holder, batch_id, now, ordered=ordered)
            if found is None:
                return None
            each, known = found
            work = known.take(each.batch, holder, lease, now)
            return Claim(
                batch=each.listed(with_items=True),
                consumer=consumer,
                holder=holder,
                attempt=work.attempt,
                lease_until=work.lease_until,
            )

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """Extend a claim to ``lease`` seconds from now."""
        with self._lock:
            return _changes.renew(self._records.get(claim.batch.key), claim, lease, self._clock.now())

    async def acknowledge(self, claim: Claim) -> None:
        """Record that the consumer has finished the batch; it never gets it again."""
        with self._lock:
            _changes.acknowledge(self._records.get(claim.batch.key), claim, self._clock.now())

    async def release(
        self, claim: Claim, error: str | None = None, *, retry_after: float = 0.0, dead: bool = False
    ) -> None:
        """Give a batch back, to be claimed again, or set it aside; the error is kept with the attempt."""
        with self._lock:
            record = self._records.get(claim.batch.key)
            _changes.release(record, claim, error, retry_after, self._clock.now(), dead=dead)

    async def pending(self, selector: Selector, consumer: str, limit: int = 1000, *, free: bool = False) -> list[Batch]:
        """Return the batches that a known consumer has not finished, oldest first, without items."""
        now = self._clock.now()
        with self._lock:
            wanted = _changes.wanted(self._selected(selector), consumer)
            chosen = [each for each, known in wanted if not free or known.can_take(each.batch, now)]
            return [each.listed(with_items=False) for each in chosen[:limit]]

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """Whether the consumer has acknowledged this batch."""
        with self._lock:
            return any(_changes.has_acknowledged(each, consumer, batch_id) for each in self._selected(selector))

    async def history(self, key: WatermarkKey, before_seq: int | None = None, limit: int = 100) -> list[Batch]:
        """Return the log of a watermark, newest first, with items, from before a sequence number."""
        with self._lock:
            log = [each for each in self._log(key) if before_seq is None or each.batch.seq < before_seq]
            return [each.listed(with_items=True) for each in reversed(log)][:limit]

    async def list_watermarks(self, selector: Selector | None = None) -> list[Watermark]:
        """Return watermarks by asset name, namespace and key."""
        with self._lock:
            return [given(record.watermark) for record in self._selected(selector)]

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool = False, act: Act | None = None
    ) -> Watermark:
        """Set the cursor to any position, whatever the version; a poll under way gets a conflict."""
        cursor = copied(cursor)
        with self._lock:
            record = self._made(key)
            detail = _changes.rewind(record, cursor, self._clock.now(), reread=reread, rewatch=rewatch)
            self._note(key, "rewind", detail, act)
            return given(record.watermark)

    async def rewatch(self, key: WatermarkKey, act: Act | None = None) -> Watermark | None:
        """Forget what is watched and keep the position, or that there is none yet."""
        with self._lock:
            record = self._records.get(key)
            if record is None:
                return None
            _changes.rewatch(record)
            self._note(key, "rewatch", REWATCHED, act)
            return given(record.watermark)

    async def forget(self, key: WatermarkKey, act: Act | None = None) -> bool:
        """Delete a watermark with its batches, claims and consumers; whether there was one."""
        with self._lock:
            record = self._records.pop(key, None)
            if record is not None:
                self._ids.difference_update(each.batch.id for each in record.log.values())
                self._note(key, "forget", FORGOTTEN, act)
            return record is not None

    async def aclose(self) -> None:
        """Nothing to give back; what the store holds stays as long as the object."""
