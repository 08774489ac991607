"""What must be true of one watermark, kept in the simplest words: dictionaries, and no cleverness."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing.fakes import ListItem, ListSource

__all__ = ["ModelConsumer", "WatermarkModel", "Work"]


@dataclass(slots=True)
class Work:
    """One consumer's last claim of one batch."""

    holder: str
    attempt: int
    lease_until: dt.datetime
    state: str = "claimed"


@dataclass(slots=True)
class ModelConsumer:
    """One consumer: where it began, and what it did."""

    start_seq: int
    work: dict[int, Work] = field(default_factory=dict)

    def wants(self, seq: int) -> bool:
        """Whether the batch is its business and not finished."""
        return seq > self.start_seq and (seq not in self.work or self.work[seq].state != "acknowledged")

    def holds(self, seq: int, now: dt.datetime) -> bool:
        """Whether one of its workers has a valid lease on the batch."""
        work = self.work.get(seq)
        return work is not None and work.state == "claimed" and work.lease_until > now

    def next(self, seqs: list[int], now: dt.datetime) -> int | None:
        """The batch that its next claim must get."""
        return next((seq for seq in seqs if self.wants(seq) and not self.holds(seq, now)), None)


class WatermarkModel:
    """The truth about a watermark, its log and its consumers, as every store must have it.

    ``excused`` are the items that nobody owes to anybody: they appeared behind the window of the watermark, or lie
    behind a position that somebody set.
    """

    def __init__(self, source: ListSource) -> None:
        self.source = source
        self.cursor: Cursor = None
        self.version = 0
        self.batches: dict[int, Batch] = {}
        self.items: dict[int, list[str]] = {}
        self.announced: dict[int, dt.datetime] = {}
        self.told = 0
        self.consumers: dict[str, ModelConsumer] = {}
        self.since = 0
        self.excused: set[str] = set()

    @property
    def seqs(self) -> list[int]:
        """The numbers of all batches, oldest first."""
        return sorted(self.batches)

    def passed(self, item: ListItem, cursor: Cursor) -> bool:
        """Whether a poll from a cursor cannot see an item any more."""
        if cursor is None:
            return False
        if self.source.lateness:
            return item.at < cursor[0] - self.source.lateness
        return item.cursor <= tuple(cursor)

    def added(self, item: ListItem) -> None:
        """An item appears in the source: too late, perhaps."""
        if self.passed(item, self.cursor):
            self.excused.add(item.name)

    def committed(self, cursor: Cursor, batches: list[Batch], names: list[str], read: set[str]) -> None:
        """A poll that had read those items was committed: what appeared since and was passed by came too late."""
        self.cursor = cursor
        self.version += 1
        for batch in batches:
            assert batch.seq == len(self.batches) + 1
            self.batches[batch.seq] = batch
            self.items[batch.seq] = names
        for item in self.source.items:
            if item.name not in read and self.passed(item, cursor):
                self.excused.add(item.name)

    def rewound(self, cursor: Cursor, *, reread: bool) -> None:
        """Somebody set the position: what lies behind it is not owed, what lies above it is."""
        self.cursor = cursor
        self.version += 1
        if reread or not self.source.lateness:
            self.since = len(self.batches)
        self.excused = {item.name for item in self.source.items if self.passed(item, cursor)}

    def delivered(self) -> list[str]:
        """The items in the log since the last position from which things are delivered again."""
        return [name for seq in self.seqs if seq > self.since for name in self.items[seq]]

    def due(self, redeliver_after: float, skip: set[int], now: dt.datetime) -> list[int]:
        """The batches that must be announced."""
        idle = [
            consumer
            for consumer in self.consumers.values()
            if not any(consumer.holds(seq, now) for seq in consumer.work)
        ]
        long_ago = now - dt.timedelta(seconds=redeliver_after)
        late = [seq for seq, at in self.announced.items() if at <= long_ago and any(each.wants(seq) for each in idle)]
        return sorted({*self.unconfirmed(), *late} - skip)

    def unconfirmed(self) -> list[int]:
        """The batches of which Airflow may have no event, and that somebody has still to be told of."""
        told = {seq for seq in self.seqs if seq <= self.told and self.finished(seq)}
        return [seq for seq in self.seqs if seq not in self.announced and seq not in told]

    def finished(self, seq: int) -> bool:
        """Whether every consumer, of at least one, has acknowledged a batch."""
        works = [consumer.work.get(seq) for consumer in self.consumers.values()]
        return bool(works) and all(work is not None and work.state == "acknowledged" for work in works)

    def announcing(self, due: list[int], now: dt.datetime) -> None:
        """An announcement begins: what was told before, and is finished, counts as announced."""
        for seq in self.seqs:
            if seq not in self.announced and seq <= self.told and self.finished(seq):
                self.announced[seq] = now
        self.told = max(self.told, *due)

    def check_items(self) -> None:
        """Nothing committed is lost, nothing is delivered twice."""
        delivered = self.delivered()
        assert len(delivered) == len(set(delivered)), "an item was delivered twice"
        owed = {item.name for item in self.source.items if self.passed(item, self.cursor)} - self.excused
        assert owed <= set(delivered), "the watermark moved over an item that is not in the log"
