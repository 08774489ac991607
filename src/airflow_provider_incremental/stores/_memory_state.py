"""What stores without a database hold of a watermark, and the decisions that need no clock, lock or loop."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch
from airflow_provider_incremental.core.errors import LeaseLostError, StoreError
from airflow_provider_incremental.core.source import Pieces
from airflow_provider_incremental.core.store import CLOCK_TOLERANCE, RETURNS_WITHIN, ConsumerStart
from airflow_provider_incremental.core.upkeep import ConsumerStatus
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watermark, WatermarkKey, WatermarkStatus


@dataclass(slots=True)
class Work:
    """What one consumer did with one batch last."""

    state: Literal["claimed", "released", "acknowledged", "dead"]
    holder: str
    attempt: int
    lease_until: dt.datetime
    stamped_at: dt.datetime
    error: str | None = None

    def held(self, now: dt.datetime) -> bool:
        return self.state == "claimed" and not self._over(now)

    def free(self, now: dt.datetime) -> bool:
        return self.state in ("claimed", "released") and self._over(now)

    def lasts(self, seconds: float, now: dt.datetime) -> None:
        self.lease_until, self.stamped_at = now + dt.timedelta(seconds=seconds), now

    def give_back(self, error: str | None, retry_after: float, now: dt.datetime, *, dead: bool) -> None:
        self.state = "dead" if dead else "released"
        self.attempt -= error is None
        self.error = error
        self.lasts(retry_after, now)

    def _over(self, now: dt.datetime) -> bool:
        return self.lease_until <= now or is_ahead(self.stamped_at, now)


@dataclass(slots=True)
class Consumer:
    """Who processes batches, from which one on, and what became of each."""

    start_seq: int
    seen_at: dt.datetime
    first_seen_at: dt.datetime
    work: dict[int, Work] = field(default_factory=dict)

    def returns(self, now: dt.datetime) -> bool:
        return (now - self.seen_at).total_seconds() < RETURNS_WITHIN

    def finished(self, batch: Batch) -> bool:
        work = self.work.get(batch.seq)
        return work is not None and work.state in ("acknowledged", "dead")

    def wants(self, batch: Batch) -> bool:
        return batch.kind != "baseline" and batch.seq > self.start_seq and not self.finished(batch)

    def holds_any(self, now: dt.datetime) -> bool:
        return any(work.held(now) for work in self.work.values())

    def can_take(self, batch: Batch, now: dt.datetime, holder: str = "") -> bool:
        work = self.work.get(batch.seq)
        mine = work is not None and work.state == "claimed" and work.holder == holder
        return self.wants(batch) and (work is None or work.free(now)) and not mine

    def take(self, batch: Batch, holder: str, lease: float, now: dt.datetime) -> Work:
        before = self.work.get(batch.seq)
        work = self.work[batch.seq] = Work("claimed", holder, before.attempt + 1 if before else 1, now, now)
        work.lasts(lease, now)
        return work


@dataclass(slots=True)
class Logged:
    """One batch of the log: ``batch`` as it is listed, its items as JSON text."""

    batch: Batch
    items: str
    fingerprints: tuple[bytes, ...]

    def listed(self, *, with_items: bool) -> Batch:
        batch = self.batch
        items = loads(self.items) if with_items else None
        return replace(batch, low=copied(batch.low), high=copied(batch.high), items=items)


@dataclass(slots=True)
class Record:
    """A watermark with everything that belongs to it: the log by sequence number, oldest first."""

    watermark: Watermark
    log: dict[int, Logged] = field(default_factory=dict)
    consumers: dict[str, Consumer] = field(default_factory=dict)
    announced_at: dt.datetime | None = None
    announced_seq: int = 0
    pieces: dict[str, bytes] = field(default_factory=dict)

    def unmoved(self, loaded: Watermark) -> bool:
        """Whether nobody has moved the watermark since, made it anew, or given it to another source before a move."""
        now = self.watermark
        watched = now.started or now.watches == loaded.watches
        return watched and (now.created_at, now.version) == (loaded.created_at, loaded.version)

    def returning(self, now: dt.datetime) -> list[Consumer]:
        return [consumer for consumer in self.consumers.values() if consumer.returns(now)]

    def settled(self, batch: Batch, now: dt.datetime) -> bool:
        """Whether there is nobody left to be told of a batch once more."""
        consumers = self.returning(now)
        everybody = bool(consumers) and all(each.finished(batch) for each in consumers)
        return everybody and batch.seq <= self.announced_seq

    def due(self, redeliver_after: float, skip: Collection[int], now: dt.datetime) -> list[Logged]:
        others = [each for each in self.log.values() if each.batch.seq not in skip]
        idle = [each for each in self.returning(now) if not each.holds_any(now)]
        return [each for each in others if is_due(self, each.batch, redeliver_after, now, idle)]

    def begin_announcement(self, up_to_seq: int, interval: float, now: dt.datetime) -> float:
        for each in self.log.values():
            if each.batch.announced_at is None and self.settled(each.batch, now):
                each.batch = replace(each.batch, announced_at=now)
        wait = 0.0 if self.announced_at is None else interval - (now - self.announced_at).total_seconds()
        if 0 < wait <= 2 * interval:  # beyond that, the clock was set back
            return min(wait, interval)
        self.announced_at, self.announced_seq = now, max(self.announced_seq, up_to_seq)
        return 0.0

    def move(self, cursor: Cursor, new: Sequence[Logged], report: PollReport, now: dt.datetime) -> None:
        self.log |= {each.batch.seq: each for each in new}
        self.watermark = replace(
            self.watermark,
            cursor=cursor,
            version=self.watermark.version + 1,
            last_seq=self.watermark.last_seq + len(new),
            moved_at=now,
            status=reported(self.watermark.status, report, now),
        )

    def rewind(self, cursor: Cursor, *, reread: bool, now: dt.datetime) -> None:
        before = self.watermark
        after = before.last_seq if reread else before.reread_after_seq
        version = before.version + 1
        self.watermark = replace(before, cursor=cursor, version=version, reread_after_seq=after, moved_at=now)

    def rewatch(self) -> None:
        self.watermark = replace(self.watermark, watches=None)
        self.pieces.clear()

    def status(self, name: str) -> ConsumerStatus:
        known = self.consumers[name]
        batches = [each.batch for each in self.log.values()]
        unfinished = [batch.seq for batch in batches if known.wants(batch)]
        return ConsumerStatus(
            key=self.watermark.key,
            consumer=name,
            start_seq=known.start_seq,
            done_seq=min(unfinished, default=self.watermark.last_seq + 1) - 1,
            pending=len(unfinished),
            dead=sum(work.state == "dead" for work in known.work.values()),
            first_seen_at=known.first_seen_at,
            last_seen_at=known.seen_at,
        )

    def replay(self, name: str, first_seq: int, last_seq: int, *, dead_only: bool, now: dt.datetime) -> int:
        known = self.consumers[name]
        before = {seq for seq in self.log if first_seq <= seq <= last_seq} - {
            seq for seq, each in self.log.items() if known.wants(each.batch) or each.batch.kind == "baseline"
        }
        if dead_only:
            before = {seq for seq in before if seq in known.work and known.work[seq].state == "dead"}
        if before and min(before) <= known.start_seq:
            skipped = Work("acknowledged", "before the start", 0, now, now)
            for seq in self.log.keys() & set(range(min(before), known.start_seq + 1)):
                known.work.setdefault(seq, replace(skipped))
            known.start_seq = min(before) - 1
        for seq in before:
            known.work.pop(seq, None)
        known.seen_at = now
        return len(before)

    def needless(self, before_seq: int, old: dt.datetime) -> list[int]:
        done = min((self.status(name).done_seq for name in self.consumers), default=self.watermark.last_seq)
        dead = {seq for known in self.consumers.values() for seq, work in known.work.items() if work.state == "dead"}
        return [
            seq
            for seq, each in self.log.items()
            if seq < before_seq
            and (seq <= done or each.batch.kind == "baseline")
            and seq not in dead
            and _told(each.batch)
            and (at := each.batch.committed_at) is not None
            and at < old
        ]

    def remembered(self, prefix: str, after: str) -> list[tuple[str, bytes]]:
        return [piece for piece in sorted(self.pieces.items()) if piece[0].startswith(prefix) and piece[0] > after]

    def remember(self, changes: Pieces) -> None:
        for name, piece in changes.items():
            if piece is None:
                self.pieces.pop(name, None)
            else:
                self.pieces[name] = bytes(piece)


def _told(batch: Batch) -> bool:
    return batch.announced_at is not None or batch.kind == "baseline"


def firsts(wanted: Sequence[tuple[Logged, Consumer]], holder: str) -> list[tuple[Logged, Consumer]]:
    """Of each watermark, the oldest batch that its consumer has not finished and that this holder does not hold."""
    of_key: dict[WatermarkKey, tuple[Logged, Consumer]] = {}
    for logged_, known in wanted:
        work = known.work.get(logged_.batch.seq)
        if work is None or work.state != "claimed" or work.holder != holder:
            of_key.setdefault(logged_.batch.key, (logged_, known))
    return list(of_key.values())


def is_ahead(stamp: dt.datetime, now: dt.datetime) -> bool:
    return (stamp - now).total_seconds() > CLOCK_TOLERANCE


def copied(value: Any) -> Any:
    return loads(dumps(value))


def given(watermark: Watermark) -> Watermark:
    return replace(watermark, cursor=copied(watermark.cursor))


def logged(key: WatermarkKey, new: NewBatch, seq: int, now: dt.datetime) -> Logged:
    items = dumps(list(new.items))
    batch = Batch(
        key=key,
        id=new.id,
        seq=seq,
        low=copied(new.low),
        high=copied(new.high),
        count=new.count,
        kind=new.kind,
        items_bytes=len(items),
        committed_at=now,
    )
    return Logged(batch, items, tuple(new.fingerprints))


def reported(status: WatermarkStatus, report: PollReport, now: dt.datetime) -> WatermarkStatus:
    return WatermarkStatus(
        last_poll_at=now,
        next_poll_at=report.next_poll_at(now),
        last_error=report.error,
        last_error_at=status.last_error_at if report.error is None else now,
        failures=report.failures,
        conflicts=status.conflicts + report.conflicts,
        late_skipped=status.late_skipped + report.late_skipped,
        note=report.note,
    )


def is_due(record: Record, batch: Batch, redeliver_after: float, now: dt.datetime, idle: Sequence[Consumer]) -> bool:
    if batch.kind == "baseline":
        return False
    if batch.announced_at is None:
        return not record.settled(batch, now)
    if now - dt.timedelta(seconds=redeliver_after) < batch.announced_at and not is_ahead(batch.announced_at, now):
        return False
    return any(consumer.can_take(batch, now) for consumer in idle)


def first_seq(record: Record, start: ConsumerStart, named: Collection[str]) -> int:
    if start == "earliest":
        return 1
    named_here = [each.batch.seq for each in record.log.values() if each.batch.id in named]
    return min(named_here, default=record.watermark.last_seq + 1)


def require_unused(known: Collection[str], ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids) or any(each in known for each in ids):
        msg = f"a batch with one of these ids was committed before: {', '.join(ids)}; make a new one for each commit"
        raise StoreError(msg)


def lost(claim: Claim) -> LeaseLostError:
    msg = (
        f"{claim.consumer} no longer holds batch {claim.batch.id} of {claim.batch.key}: the lease of {claim.holder!r} "
        "ran out and another worker took it, or it was finished or given back; raise the lease if work takes longer"
    )
    return LeaseLostError(msg)
