"""What the memory store holds, and the operations on it that people do by hand."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.journal import UNSUBSCRIBED, replayed
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_state import Logged, Record

__all__ = ["MemoryUpkeep"]


class MemoryUpkeep:
    """All watermarks behind one lock, with consumers, dead batches, replays, retention and the journal."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[WatermarkKey, Record] = {}
        self._ids: set[str] = set()
        self._entries: list[JournalEntry] = []
        self._lock = threading.Lock()

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """Set aside what a consumer took so often, did not finish, and does not hold."""
        now = self._clock.now()
        with self._lock:
            records = self._selected(selector)
            return [dead for record in records for dead in _changes.bury(record, consumer, max_attempts, now)]

    async def dead_batches(
        self, selector: Selector | None = None, consumer: str | None = None, limit: int = 1000
    ) -> list[DeadBatch]:
        """Return the batches that were set aside, of one consumer or of all, oldest first."""
        with self._lock:
            return _changes.dead_batches(self._selected(selector), consumer)[:limit]

    async def consumers(self, selector: Selector | None = None) -> list[ConsumerStatus]:
        """Return every known consumer of every selected watermark, by watermark and name."""
        with self._lock:
            return [record.status(name) for record in self._selected(selector) for name in sorted(record.consumers)]

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None = None) -> list[WatermarkKey]:
        """Forget a consumer with its claims: nothing is kept or announced for it."""
        gone = []
        with self._lock:
            for record in self._selected(selector):
                if record.consumers.pop(consumer, None) is not None:
                    gone.append(record.watermark.key)
                    self._note(record.watermark.key, "unsubscribe", UNSUBSCRIBED.format(consumer), act)
        return gone

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
        now = self._clock.now()
        with self._lock:
            record = self._records.get(key)
            if record is None:
                return {}
            given = _changes.replay(record, first_seq, last_seq, consumer, now, dead_only=dead_only)
            self._note(key, "replay", replayed(first_seq, last_seq, given, dead_only=dead_only), act)
            return given

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int = 1000) -> int:
        """Delete the oldest batches that nobody needs, with their claims."""
        old = self._clock.now() - dt.timedelta(seconds=older_than)
        with self._lock:
            record = self._records.get(key)
            if record is None:
                return 0
            needless = record.needless(before_seq, old)[:limit]
            for seq in needless:
                self._ids.discard(record.log.pop(seq).batch.id)
                for known in record.consumers.values():
                    known.work.pop(seq, None)
            return len(needless)

    async def journal(self, key: WatermarkKey | None = None, limit: int = 100) -> list[JournalEntry]:
        """Return what was done by hand, newest first."""
        with self._lock:
            return [each for each in reversed(self._entries) if key in (None, each.key)][:limit]

    def _note(self, key: WatermarkKey, operation: str, detail: str, act: Act | None) -> None:
        if act is not None:
            now = self._clock.now()
            entry = JournalEntry(at=now, key=key, operation=operation, detail=detail, who=act.who, why=act.why)
            self._entries.append(entry)

    def _made(self, key: WatermarkKey) -> Record:
        return self._records.setdefault(key, _changes.new_record(key, self._clock.now()))

    def _log(self, key: WatermarkKey) -> list[Logged]:
        record = self._records.get(key)
        return list(record.log.values()) if record else []

    def _selected(self, selector: Selector | None) -> Iterator[Record]:
        for key in sorted(self._records, key=lambda key: (key.asset_name, key.namespace, key.key)):
            if selector is None or selector.matches(key):
                yield self._records[key]
