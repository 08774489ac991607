"""A store that fails, or takes the whole process with it, before or after the operation that a test names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch, SeenBatch
from airflow_provider_incremental.core.snapshot import FIRST, PAGE_BYTES, Place, Snapshot
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.store import ConsumerStart, Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey

__all__ = ["CrashingStore", "ProcessDied"]

_T = TypeVar("_T")


class ProcessDied(BaseException):
    """What ``kill -9`` looks like from inside: no ``except Exception`` sees it, and nothing works afterwards."""


@dataclass(slots=True)
class _Fault:
    operation: str
    when: Literal["before", "after"]
    error: Exception | None
    times: int


class CrashingStore:
    """The store as one process sees it: wrap the store that survives anew for every process that a test starts.

    :param store: the store that does the work.

    >>> from airflow_provider_incremental.stores.memory import MemoryStore
    >>> store = CrashingStore(MemoryStore())
    >>> store.die("after", "commit")  # committed, and nobody learns of it
    """

    def __init__(self, store: WatermarkStore) -> None:
        self.calls: list[str] = []
        """The names of the operations that were begun, in order."""
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        """Awaited before every call of the operations named: a store that takes its time, or a meeting point."""
        self.dead = False
        self._store = store
        self._faults: list[_Fault] = []

    def die(self, when: Literal["before", "after"], operation: str) -> None:
        """Kill the process before or after the next call of an operation; every later call finds it dead."""
        self._faults.append(_Fault(operation, when, None, 1))

    def fail(self, when: Literal["before", "after"], operation: str, error: Exception, times: int = 1) -> None:
        """Raise an error before or after the next calls of an operation: the answer is lost, not the process."""
        self._faults.append(_Fault(operation, when, error, times))

    def heal(self) -> None:
        """Forget the faults that have not happened yet."""
        self._faults.clear()

    async def identity(self) -> str:
        """See :meth:`WatermarkStore.identity`."""
        return await self._run("identity", self._store.identity)

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """See :meth:`WatermarkStore.load`."""
        return await self._run("load", lambda: self._store.load(key))

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """See :meth:`WatermarkStore.register`."""
        return await self._run("register", lambda: self._store.register(key, watches))

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces = NOTHING,
    ) -> tuple[Watermark, list[Batch]]:
        """See :meth:`WatermarkStore.commit`."""
        return await self._run("commit", lambda: self._store.commit(watermark, high, batches, report, remember))

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """See :meth:`WatermarkStore.remembered`."""
        return await self._run("remembered", lambda: self._store.remembered(key, prefix, after, limit))

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """See :meth:`WatermarkStore.report`."""
        await self._run("report", lambda: self._store.report(key, report))

    async def due(
        self,
        key: WatermarkKey,
        redeliver_after: float,
        skip: Collection[int] = (),
        inline_bytes: int = 0,
        limit: int = 1000,
    ) -> list[Batch]:
        """See :meth:`WatermarkStore.due`."""
        return await self._run("due", lambda: self._store.due(key, redeliver_after, skip, inline_bytes, limit))

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """See :meth:`WatermarkStore.begin_announcement`."""
        return await self._run("begin_announcement", lambda: self._store.begin_announcement(key, up_to_seq, interval))

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """See :meth:`WatermarkStore.confirm`."""
        await self._run("confirm", lambda: self._store.confirm(key, batch_ids))

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """See :meth:`WatermarkStore.seen`."""
        return await self._run("seen", lambda: self._store.seen(key, after_seq, before_seq, limit))

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str] = ()
    ) -> list[WatermarkKey]:
        """See :meth:`WatermarkStore.subscribe`."""
        return await self._run("subscribe", lambda: self._store.subscribe(selector, consumer, start, named))

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
        """See :meth:`WatermarkStore.claim`."""
        return await self._run(
            "claim", lambda: self._store.claim(selector, consumer, holder, lease, batch_id, ordered=ordered)
        )

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """See :meth:`WatermarkStore.renew`."""
        return await self._run("renew", lambda: self._store.renew(claim, lease))

    async def acknowledge(self, claim: Claim) -> None:
        """See :meth:`WatermarkStore.acknowledge`."""
        await self._run("acknowledge", lambda: self._store.acknowledge(claim))

    async def release(
        self, claim: Claim, error: str | None = None, *, retry_after: float = 0.0, dead: bool = False
    ) -> None:
        """See :meth:`WatermarkStore.release`."""
        await self._run("release", lambda: self._store.release(claim, error, retry_after=retry_after, dead=dead))

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """See :meth:`WatermarkStore.bury`."""
        return await self._run("bury", lambda: self._store.bury(selector, consumer, max_attempts))

    async def pending(self, selector: Selector, consumer: str, limit: int = 1000, *, free: bool = False) -> list[Batch]:
        """See :meth:`WatermarkStore.pending`."""
        return await self._run("pending", lambda: self._store.pending(selector, consumer, limit, free=free))

    async def dead_batches(
        self, selector: Selector | None = None, consumer: str | None = None, limit: int = 1000
    ) -> list[DeadBatch]:
        """See :meth:`WatermarkStore.dead_batches`."""
        return await self._run("dead_batches", lambda: self._store.dead_batches(selector, consumer, limit))

    async def consumers(self, selector: Selector | None = None) -> list[ConsumerStatus]:
        """See :meth:`WatermarkStore.consumers`."""
        return await self._run("consumers", lambda: self._store.consumers(selector))

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None = None) -> list[WatermarkKey]:
        """See :meth:`WatermarkStore.unsubscribe`."""
        return await self._run("unsubscribe", lambda: self._store.unsubscribe(selector, consumer, act))

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
        """See :meth:`WatermarkStore.replay`."""
        return await self._run(
            "replay",
            lambda: self._store.replay(key, first_seq, last_seq, consumer=consumer, dead_only=dead_only, act=act),
        )

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int = 1000) -> int:
        """See :meth:`WatermarkStore.prune`."""
        return await self._run("prune", lambda: self._store.prune(key, older_than, before_seq, limit))

    async def journal(self, key: WatermarkKey | None = None, limit: int = 100) -> list[JournalEntry]:
        """See :meth:`WatermarkStore.journal`."""
        return await self._run("journal", lambda: self._store.journal(key, limit))

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """See :meth:`WatermarkStore.acknowledged`."""
        return await self._run("acknowledged", lambda: self._store.acknowledged(selector, consumer, batch_id))

    async def history(self, key: WatermarkKey, before_seq: int | None = None, limit: int = 100) -> list[Batch]:
        """See :meth:`WatermarkStore.history`."""
        return await self._run("history", lambda: self._store.history(key, before_seq, limit))

    async def list_watermarks(self, selector: Selector | None = None) -> list[Watermark]:
        """See :meth:`WatermarkStore.list_watermarks`."""
        return await self._run("list_watermarks", lambda: self._store.list_watermarks(selector))

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool = False, act: Act | None = None
    ) -> Watermark:
        """See :meth:`WatermarkStore.rewind`."""
        return await self._run(
            "rewind", lambda: self._store.rewind(key, cursor, reread=reread, rewatch=rewatch, act=act)
        )

    async def rewatch(self, key: WatermarkKey, act: Act | None = None) -> Watermark | None:
        """See :meth:`WatermarkStore.rewatch`."""
        return await self._run("rewatch", lambda: self._store.rewatch(key, act))

    async def forget(self, key: WatermarkKey, act: Act | None = None) -> bool:
        """See :meth:`WatermarkStore.forget`."""
        return await self._run("forget", lambda: self._store.forget(key, act))

    async def export(self, key: WatermarkKey, place: Place = FIRST, page_bytes: int = PAGE_BYTES) -> Snapshot | None:
        """See :meth:`WatermarkStore.export`."""
        return await self._run("export", lambda: self._store.export(key, place, page_bytes))

    async def restore(self, page: Snapshot, act: Act | None = None) -> None:
        """See :meth:`WatermarkStore.restore`."""
        await self._run("restore", lambda: self._store.restore(page, act))

    async def aclose(self) -> None:
        """See :meth:`WatermarkStore.aclose`."""
        await self._run("aclose", self._store.aclose)

    async def _run(self, operation: str, call: Callable[[], Awaitable[_T]]) -> _T:
        self.calls.append(operation)
        self._strike("before", operation)
        if operation in self.before:
            await self.before[operation]()
        answer = await call()
        self._strike("after", operation)
        return answer

    def _strike(self, when: str, operation: str) -> None:
        if self.dead:
            raise ProcessDied
        for fault in self._faults:
            if (fault.when, fault.operation) == (when, operation):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                if fault.error is not None:
                    raise fault.error
                self.dead = True
                raise ProcessDied
