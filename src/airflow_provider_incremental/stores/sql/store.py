"""The SQL store: the whole protocol on one database, whichever of the three it is."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch, SeenBatch
from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.snapshot import FIRST, PAGE_BYTES, Place, Snapshot
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.store import ConsumerStart, Selector
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores.sql import statements
from airflow_provider_incremental.stores.sql.claims import Claims
from airflow_provider_incremental.stores.sql.clock import DatabaseClock
from airflow_provider_incremental.stores.sql.consumers import Consumers
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.engine import store_url
from airflow_provider_incremental.stores.sql.failures import not_migrated
from airflow_provider_incremental.stores.sql.journal import Journal
from airflow_provider_incremental.stores.sql.log import Log
from airflow_provider_incremental.stores.sql.memories import Memories
from airflow_provider_incremental.stores.sql.once import Once
from airflow_provider_incremental.stores.sql.positions import Positions
from airflow_provider_incremental.stores.sql.snapshots import Snapshots
from airflow_provider_incremental.stores.sql.upkeep import Upkeep

__all__ = ["SqlStore"]


class SqlStore:
    """Watermarks, batches and claims in PostgreSQL, MySQL/MariaDB or SQLite. It belongs to one event loop.

    :param url: the database, as ``[incremental] store`` gives it; nothing connects before the first operation.
    :param clock: decides what time it is; by default the database's clock, which all workers share.
    :param local: this machine's clock, from which the database's is told between two measurements.
    :raises ConfigurationError: when the address cannot be used.

    Example::

        store = SqlStore(url="postgresql://airflow:...@db/incremental")
        for watermark in await store.list_watermarks():
            print(watermark.key, watermark.cursor)
        await store.aclose()
    """

    def __init__(self, *, url: str, clock: Clock | None = None, local: Clock | None = None) -> None:
        self._database = Database(url=store_url(url))
        self._clock = clock
        self._shared = DatabaseClock(local=local or SystemClock())
        self._identity: str | None = None
        self._opening = asyncio.Lock()
        self._memories = Memories(database=self._database)
        self._journal = Journal(database=self._database, now=self._now)
        self._upkeep = Upkeep(database=self._database, now=self._now, journal=self._journal)
        self._positions = Positions(
            database=self._database, now=self._now, memories=self._memories, journal=self._journal
        )
        self._log = Log(database=self._database, now=self._now)
        self._consumers = Consumers(database=self._database, now=self._now)
        self._claims = Claims(database=self._database, now=self._now)
        self._snapshots = Snapshots(
            database=self._database,
            now=self._now,
            identity=self.identity,
            memories=self._memories,
            journal=self._journal,
        )
        self._once = Once(database=self._database, now=self._now)

    def __repr__(self) -> str:
        """Name the database, without its password."""
        return f"<SqlStore {self._database.where}>"

    @property
    def database(self) -> Database:
        """What runs this store's operations: for tests and tools that look at connections or plans."""
        return self._database

    async def identity(self) -> str:
        """Return the id that this store got when its tables were made."""
        return self._identity or await self._measure()

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """Return a watermark with its status, or None when nobody registered it."""
        return await self._positions.load(key)

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """Make a watermark unless it is there, and record what it watches unless that is known."""
        return await self._positions.register(key, watches)

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces = NOTHING,
    ) -> tuple[Watermark, list[Batch]]:
        """Move a watermark from the version that was loaded to the next, and append batches: all or nothing."""
        return await self._positions.commit(watermark, high, batches, report, remember)

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return pieces of the source's memory, in order of their names."""
        return await self._memories.read(key, prefix, after, limit)

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """Record how a poll went; the version does not move."""
        await self._positions.report(key, report)

    async def due(
        self,
        key: WatermarkKey,
        redeliver_after: float,
        skip: Collection[int] = (),
        inline_bytes: int = 0,
        limit: int = 1000,
    ) -> list[Batch]:
        """Return the batches that should be announced now, oldest first."""
        return await self._log.due(key, redeliver_after, skip, inline_bytes, limit)

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """Record that the batches that are due are announced now; or say how long that has to wait."""
        return await self._log.begin_announcement(key, up_to_seq, interval)

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """Record that Airflow has stored the event that names these batches."""
        await self._log.confirm(key, batch_ids)

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """Return fingerprints of the batches with ``after_seq < seq < before_seq``, newest first."""
        return await self._log.seen(key, after_seq, before_seq, limit)

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str] = ()
    ) -> list[WatermarkKey]:
        """Make a consumer known on every selected watermark where it is not, and return the selected watermarks."""
        return await self._consumers.subscribe(selector, consumer, start, named)

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
        return await self._claims.claim(selector, consumer, holder, lease, batch_id, ordered=ordered)

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """Extend a claim to ``lease`` seconds from now."""
        return await self._claims.renew(claim, lease)

    async def acknowledge(self, claim: Claim) -> None:
        """Record that the consumer has finished the batch; it never gets it again."""
        await self._claims.acknowledge(claim)

    async def release(
        self, claim: Claim, error: str | None = None, *, retry_after: float = 0.0, dead: bool = False
    ) -> None:
        """Give a batch back, to be claimed again, or set it aside."""
        await self._claims.release(claim, error, retry_after=retry_after, dead=dead)

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """Set aside what a consumer took so often, did not finish, and does not hold."""
        return await self._upkeep.bury(selector, consumer, max_attempts)

    async def pending(self, selector: Selector, consumer: str, limit: int = 1000, *, free: bool = False) -> list[Batch]:
        """Return the batches that a known consumer has not finished, oldest first, without items."""
        return await self._claims.pending(selector, consumer, limit, free=free)

    async def dead_batches(
        self, selector: Selector | None = None, consumer: str | None = None, limit: int = 1000
    ) -> list[DeadBatch]:
        """Return the batches that were set aside, of one consumer or of all, oldest first."""
        return await self._upkeep.dead_batches(selector, consumer, limit)

    async def consumers(self, selector: Selector | None = None) -> list[ConsumerStatus]:
        """Return every known consumer of every selected watermark, by watermark and name."""
        return await self._upkeep.consumers(selector)

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None = None) -> list[WatermarkKey]:
        """Forget a consumer with its claims: nothing is kept or announced for it."""
        return await self._upkeep.unsubscribe(selector, consumer, act)

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
        return await self._upkeep.replay(key, first_seq, last_seq, consumer, dead_only=dead_only, act=act)

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int = 1000) -> int:
        """Delete the oldest batches that nobody needs, with their claims."""
        return await self._upkeep.prune(key, older_than, before_seq, limit)

    async def journal(self, key: WatermarkKey | None = None, limit: int = 100) -> list[JournalEntry]:
        """Return what was done by hand, newest first."""
        return await self._journal.read(key, limit)

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """Whether the consumer has acknowledged this batch."""
        return await self._claims.acknowledged(selector, consumer, batch_id)

    async def history(self, key: WatermarkKey, before_seq: int | None = None, limit: int = 100) -> list[Batch]:
        """Return the log of a watermark, newest first, with items, from before a sequence number."""
        return await self._log.history(key, before_seq, limit)

    async def list_watermarks(self, selector: Selector | None = None) -> list[Watermark]:
        """Return watermarks by asset name, namespace and key."""
        return await self._positions.list_watermarks(selector)

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool = False, act: Act | None = None
    ) -> Watermark:
        """Set the cursor to any position, whatever the version; a poll under way gets a conflict."""
        return await self._positions.rewind(key, cursor, reread=reread, rewatch=rewatch, act=act)

    async def rewatch(self, key: WatermarkKey, act: Act | None = None) -> Watermark | None:
        """Forget what is watched and keep the position, or that there is none yet."""
        return await self._positions.rewatch(key, act)

    async def forget(self, key: WatermarkKey, act: Act | None = None) -> bool:
        """Delete a watermark with its batches, claims and consumers; whether there was one."""
        return await self._positions.forget(key, act)

    async def export(self, key: WatermarkKey, place: Place = FIRST, page_bytes: int = PAGE_BYTES) -> Snapshot | None:
        """Return a page of all that belongs to a watermark, or None when there is none."""
        return await self._snapshots.export(key, place, page_bytes)

    async def restore(self, page: Snapshot, act: Act | None = None) -> None:
        """Take in one of the pages that another store gave."""
        await self._snapshots.restore(page, act)

    async def once(self, key: str, work: Callable[[], Awaitable[str]]) -> str:
        """Run one operation of this store and remember its answer, in one transaction; a second time, only answer."""
        return await self._once.once(key, work)

    async def aclose(self) -> None:
        """Give back connections. The store may not be used afterwards."""
        await self._database.aclose()

    async def _now(self) -> dt.datetime:
        if self._clock is not None:
            return self._clock.now()
        if self._identity is None or self._shared.stale:
            async with self._opening:
                if self._identity is None or self._shared.stale:
                    await self._measure()
        return self._shared.now()

    async def _measure(self) -> str:
        """Read the identity and the database's clock, in one round trip on a connection that is there already."""
        statement = statements.select_identity(self._database.dialect)

        async def work(connection: AsyncConnection) -> Any:
            began = self._shared.begin()
            row = (await connection.execute(statement)).first()
            if row is not None:
                self._shared.measured(row.now, began)
            return row

        row = await self._database.read(work)
        if row is None:
            raise not_migrated(self._database.where, "it has no identity")
        self._identity = str(row.identity)
        return self._identity
