"""What the memory store holds, and the decisions that need no clock, lock or loop."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from airflow_provider_incremental.core.batch import Batch, NewBatch
from airflow_provider_incremental.core.store import ConsumerStart
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import PollReport, Watermark, WatermarkKey, WatermarkStatus


@dataclass(slots=True)
class Work:
    """What one consumer did with one batch last."""

    state: Literal["claimed", "released", "acknowledged"]
    holder: str
    attempt: int
    lease_until: dt.datetime
    error: str | None = None

    def held(self, now: dt.datetime) -> bool:
        return self.state == "claimed" and self.lease_until > now


@dataclass(slots=True)
class Consumer:
    """Who processes batches, from which one on, and what became of each."""

    start_seq: int
    work: dict[int, Work] = field(default_factory=dict)

    def wants(self, batch: Batch) -> bool:
        work = self.work.get(batch.seq)
        acknowledged = work is not None and work.state == "acknowledged"
        return batch.kind != "baseline" and batch.seq > self.start_seq and not acknowledged

    def holds_any(self, now: dt.datetime) -> bool:
        return any(work.held(now) for work in self.work.values())

    def can_take(self, batch: Batch, now: dt.datetime) -> bool:
        work = self.work.get(batch.seq)
        return self.wants(batch) and (work is None or not work.held(now))


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
    """A watermark with everything that belongs to it: batch ``n`` stands at ``log[n - 1]``."""

    watermark: Watermark
    log: list[Logged] = field(default_factory=list)
    consumers: dict[str, Consumer] = field(default_factory=dict)


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
        last_error=report.error,
        last_error_at=status.last_error_at if report.error is None else now,
        failures=report.failures,
        conflicts=status.conflicts + report.conflicts,
        late_skipped=status.late_skipped + report.late_skipped,
        note=report.note,
    )


def is_due(batch: Batch, long_ago: dt.datetime, idle: Sequence[Consumer]) -> bool:
    if batch.kind == "baseline":
        return False
    if batch.announced_at is None:
        return True
    return batch.announced_at <= long_ago and any(consumer.wants(batch) for consumer in idle)


def first_seq(record: Record, start: ConsumerStart, named: Collection[str]) -> int:
    if start == "earliest":
        return 1
    named_here = [each.batch.seq for each in record.log if each.batch.id in named]
    return min(named_here, default=record.watermark.last_seq + 1)
