"""What each operation does to the record of one watermark: the rules of all stores that have no database to keep them.

Nothing here waits, locks or writes: a store loads a record, lets it change, and keeps it, in a transaction of its own.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.journal import CRASHED, rewound
from airflow_provider_incremental.core.store import ConsumerStart
from airflow_provider_incremental.core.upkeep import DeadBatch
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores._memory_state import (
    Consumer,
    Logged,
    Record,
    Work,
    first_seq,
    firsts,
    lost,
    reported,
)

Wanted = tuple[Logged, Consumer]

_SHORT = re.compile("#[0-9a-f]{12}")


def new_record(key: WatermarkKey, now: dt.datetime) -> Record:
    """A watermark that nobody has read for yet."""
    return Record(Watermark(key=key, cursor=None, version=0, last_seq=0, created_at=now))


def register(record: Record, watches: Watches) -> None:
    """Record what is watched, unless that is known."""
    if record.watermark.watches is None or not record.watermark.started:
        record.watermark = replace(record.watermark, watches=watches)
    else:
        record.watermark.watches.require_same(record.watermark.key, watches)


def require_unmoved(record: Record | None, loaded: Watermark) -> Record:
    """The record, if nobody has moved the watermark since it was loaded."""
    if record is None or not record.unmoved(loaded):
        there = f"at version {record.watermark.version}" if record else "forgotten"
        msg = f"watermark {loaded.key} was loaded at version {loaded.version} and is {there} by now"
        raise ConflictError(msg)
    return record


def report(record: Record, given: PollReport, now: dt.datetime) -> None:
    """Record how a poll went."""
    record.watermark = replace(record.watermark, status=reported(record.watermark.status, given, now))


def confirm(record: Record, batch_ids: Collection[str], now: dt.datetime) -> None:
    """Record that Airflow has stored the event of these batches."""
    meant = frozenset(batch_ids)
    for each in record.log.values():
        if each.batch.id in meant:
            each.batch = replace(each.batch, announced_at=now)


def subscribe(record: Record, consumer: str, start: ConsumerStart, named: Collection[str], now: dt.datetime) -> None:
    """Make a consumer known, and note that it was seen."""
    known = record.consumers.setdefault(consumer, Consumer(first_seq(record, start, named) - 1, now, now))
    known.seen_at = now


def met_at(records: Iterable[Record], consumer: str) -> dt.datetime | None:
    """When a consumer was first met on any of an asset's watermarks."""
    return min((each.consumers[consumer].first_seen_at for each in records if consumer in each.consumers), default=None)


def wanted(records: Iterable[Record], consumer: str) -> list[Wanted]:
    """The batches that a consumer has still to finish, oldest first."""
    found = [
        (each, record.consumers[consumer])
        for record in records
        if consumer in record.consumers
        for each in record.log.values()
        if record.consumers[consumer].wants(each.batch)
    ]
    return sorted(found, key=lambda pair: (pair[0].batch.committed_at, pair[0].batch.seq))


def claimable(
    found: Sequence[Wanted],
    holder: str,
    batch_id: str | None,
    now: dt.datetime,
    *,
    ordered: bool,
    unreadable: Collection[str] = (),
) -> Wanted | None:
    """The batch that a claim gets, of those that are wanted; none whose id is among the unreadable."""
    for each, known in firsts(found, holder) if ordered else found:
        if each.batch.id in unreadable or batch_id not in (None, each.batch.id):
            continue
        if known.can_take(each.batch, now, holder):
            return each, known
    return None


def renew(record: Record | None, claim: Claim, lease: float, now: dt.datetime) -> Claim:
    """Extend a claim from now."""
    work = work_of(record, claim)
    if work is None or work.state != "claimed":
        raise lost(claim)
    work.lasts(lease, now)
    return replace(claim, lease_until=work.lease_until)


def acknowledge(record: Record | None, claim: Claim, now: dt.datetime) -> None:
    """Record that the batch is finished."""
    consumer = consumer_of(record, claim)
    if consumer is not None and claim.batch.seq in consumer.work:  # else it was forgotten
        if (work := work_of(record, claim)) is None:
            raise lost(claim)
        work.state, consumer.seen_at = "acknowledged", now


def release(
    record: Record | None, claim: Claim, error: str | None, retry_after: float, now: dt.datetime, *, dead: bool
) -> None:
    """Give the batch back, or set it aside."""
    work = work_of(record, claim)
    if work is not None and work.state == "claimed":
        work.give_back(error, retry_after, now, dead=dead)
    if dead and (consumer := consumer_of(record, claim)):
        consumer.seen_at = now


def bury(record: Record, consumer: str, max_attempts: int, now: dt.datetime) -> list[DeadBatch]:
    """Set aside what a consumer took so often, did not finish, and does not hold."""
    buried = []
    for each, known in wanted([record], consumer):
        work = known.work.get(each.batch.seq)
        if work is not None and work.attempt >= max_attempts and work.free(now):
            work.give_back(work.error or CRASHED, 0.0, now, dead=True)
            known.seen_at = now
            buried.append(dead_batch(each, consumer, known))
    return buried


def replay(
    record: Record, first: int, last: int, consumer: str | None, now: dt.datetime, *, dead_only: bool
) -> dict[str, int]:
    """Give batches to a consumer again, or to all that are known."""
    names = [name for name in sorted(record.consumers) if consumer in (None, name)]
    return {name: record.replay(name, first, last, dead_only=dead_only, now=now) for name in names}


def rewind(record: Record, cursor: Cursor, now: dt.datetime, *, reread: bool, rewatch: bool) -> str:
    """Set the cursor, and return what the journal says of it."""
    detail = rewound(record.watermark.cursor, cursor, reread=reread, rewatch=rewatch)
    record.rewind(cursor, reread=reread, now=now)
    if rewatch:
        record.rewatch()
    return detail


def rewatch(record: Record) -> None:
    """Forget what is watched, and keep the position."""
    before = record.watermark
    record.watermark = replace(before, version=before.version + before.started)
    record.rewatch()


def dead_batches(records: Iterable[Record], consumer: str | None) -> list[DeadBatch]:
    """Those that were set aside, oldest first."""
    found = [
        dead_batch(record.log[seq], name, known)
        for record in records
        for name, known in record.consumers.items()
        if consumer in (None, name)
        for seq, work in known.work.items()
        if work.state == "dead"
    ]
    return sorted(found, key=lambda each: (each.batch.committed_at, each.batch.seq, each.consumer))


def has_acknowledged(record: Record, consumer: str, batch_id: str) -> bool:
    """Whether the consumer has finished a batch of the log."""
    known = record.consumers.get(consumer)
    return known is not None and any(
        each.batch.id == batch_id and work is not None and work.state == "acknowledged"
        for each in record.log.values()
        for work in [known.work.get(each.batch.seq)]
    )


def dead_batch(logged: Logged, consumer: str, known: Consumer) -> DeadBatch:
    """A batch as it is listed that is dead for a consumer."""
    work = known.work[logged.batch.seq]
    batch = logged.listed(with_items=False)
    return DeadBatch(batch=batch, consumer=consumer, attempts=work.attempt, error=work.error, since=work.lease_until)


def consumer_of(record: Record | None, claim: Claim) -> Consumer | None:
    """Whose claim it is, unless that was forgotten."""
    return record.consumers.get(claim.consumer) if record else None


def work_of(record: Record | None, claim: Claim) -> Work | None:
    """What a claim is about, unless another claim of the same batch came after it."""
    consumer = consumer_of(record, claim)
    work = consumer.work.get(claim.batch.seq) if consumer else None
    return work if work and is_of(work, claim) else None


def is_of(work: Work, claim: Claim) -> bool:
    """Whether it is what this claim is about, and not one that came after it."""
    return work.attempt == claim.attempt and work.holder in (claim.holder, shortened(claim.holder))


def shortened(holder: str) -> str:
    """A holder's name where only its equality counts and room does: of finished work. Shortened twice is once."""
    return holder if _SHORT.fullmatch(holder) else "#" + hashlib.sha256(holder.encode()).hexdigest()[:12]
