"""The store: where watermarks, batches and claims live. Logical operations, each one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch, SeenBatch
from airflow_provider_incremental.core.snapshot import FIRST, PAGE_BYTES, Place, Snapshot
from airflow_provider_incremental.core.source import NOTHING, Pieces
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey

__all__ = ["CLOCK_TOLERANCE", "RETURNS_WITHIN", "ConsumerStart", "Selector", "WatermarkStore"]

ConsumerStart = Literal["earliest", "latest"]
"""Where a consumer that the store has never met begins: with every batch in the log, or with those still to come."""

RETURNS_WITHIN = 7 * 86400.0
"""Seconds in which a consumer that was seen is expected again: long enough for a weekly DAG, or one that is broken over
a weekend. Nobody is called for one that is not: it was renamed or deleted, most likely. What waits for it stays."""

CLOCK_TOLERANCE = 300.0
"""Seconds by which a lease or a confirmation may be stamped later than now. One that is stamped later still is of a
time when the clock was ahead, and counts for nothing: else a batch would be kept from everybody until that time."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Which watermarks are meant: all of an asset, or those of one namespace or key of it."""

    asset_name: str
    namespace: str | None = None
    key: str | None = None

    def matches(self, key: WatermarkKey) -> bool:
        """Whether a watermark is one of those meant."""
        return (
            key.asset_name == self.asset_name
            and self.namespace in (None, key.namespace)
            and self.key in (None, key.key)
        )


class WatermarkStore(Protocol):
    """What a backend must do. The published contract suite checks each sentence of it.

    Every operation raises :class:`StoreUnavailableError` when the store cannot be reached and
    :class:`StoreNotMigratedError` when its tables are missing. Nothing is read and then written: an operation that
    depends on what was read before says so in its own condition, and changes nothing when the condition fails.
    """

    async def identity(self) -> str:
        """Return the id that this store got when its tables were made; it travels in every announcement."""

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """Return a watermark with its status, or None when nobody registered it."""

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """Make a watermark at version 0 unless it is there, and record what it watches unless that is known.

        At version 0 nothing was read yet, so what it watches is given up for what comes.

        :raises WatchesAnotherSourceError: when it is known to watch something else.
        """

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces = NOTHING,
    ) -> tuple[Watermark, list[Batch]]:
        """Move a watermark from the version that was loaded to the next, and append batches: all or nothing.

        :param report: recorded in the same transaction, as :meth:`report` does.
        :param remember: pieces of the source's memory to write, and those to forget (None), in the same transaction.
        :return: the moved watermark, and the batches with their sequence numbers (without items).
        :raises ConflictError: when the version is another one by now, or the watermark was forgotten and made again
            since, or it is version 0 and something else is watched by now; nothing was changed.
        """

    async def remembered(self, key: WatermarkKey, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return pieces of the source's memory: names that start with ``prefix``, above ``after``, byte by byte."""

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """Record how a poll went; the version does not move. A watermark that nobody registered is ignored.

        ``last_poll_at`` is now, and ``next_poll_at`` counted from it; error, failures and note replace those of the
        poll before; conflicts and late_skipped are added up; ``last_error_at`` stays at the last error.
        """

    async def due(
        self,
        key: WatermarkKey,
        redeliver_after: float,
        skip: Collection[int] = (),
        inline_bytes: int = 0,
        limit: int = 1000,
    ) -> list[Batch]:
        """Return the batches that should be announced now, oldest first.

        Those that were never confirmed, but for those that were announced before (:meth:`begin_announcement`) and that
        every known consumer, of at least one, has finished; and those confirmed at least ``redeliver_after`` seconds
        ago that a known consumer has not finished and that do not wait to be tried again, unless that consumer holds a
        valid lease on this watermark. Consumers that last subscribed or acknowledged :data:`RETURNS_WITHIN` seconds
        ago, or earlier, do not count. Baselines never.

        :param skip: sequence numbers that are being announced right now.
        :param inline_bytes: batches whose items take at most so many bytes come with them: of the oldest, as
            many as together take at most four times as much (:func:`core.batch.inlined`).
        """

    async def begin_announcement(self, key: WatermarkKey, up_to_seq: int, interval: float) -> float:
        """Record that the batches that are due, up to a number, are announced now; or say how long that has to wait.

        Of two calls within ``interval`` seconds, by whomever, one records it. Before that, whatever was announced
        before and is not due any more, since every known consumer has finished it, is confirmed.

        :return: 0 when it is recorded; otherwise after how many seconds to ask what is due again, at most ``interval``.
        """

    async def confirm(self, key: WatermarkKey, batch_ids: Collection[str]) -> None:
        """Record that Airflow has stored the event that names these batches: ``announced_at`` is now.

        Those that are not in the log any more are ignored: pruned, or of a watermark that was forgotten.
        """

    async def seen(self, key: WatermarkKey, after_seq: int, before_seq: int | None, limit: int) -> list[SeenBatch]:
        """Return fingerprints of the batches with ``after_seq < seq < before_seq``, newest first, ``limit`` batches."""

    async def subscribe(
        self, selector: Selector, consumer: str, start: ConsumerStart, named: Collection[str] = ()
    ) -> list[WatermarkKey]:
        """Make a consumer known on every selected watermark where it is not, and return the selected watermarks.

        :param named: ids of batches that started the run: a consumer that starts at "latest" gets these as well (it
            begins right before the oldest of them).
        """

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
        """Take the oldest batch that the consumer has not finished and nobody holds, with its items; or None.

        "Oldest" is by commit time, then by sequence number. A lease that has run out is nobody's. Finished is what was
        acknowledged, or is dead. Two claims at once never get the same batch.

        :param holder: who takes it, a text of its own for each worker: nobody gets a batch that it holds already, also
            when the lease has run out without its noticing.
        :param lease: seconds for which the batch is the holder's.
        :param batch_id: take this batch, or none.
        :param ordered: of each watermark, take the oldest unfinished batch or none: not while somebody else holds it,
            or it waits to be tried again.
        """

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """Extend a claim to ``lease`` seconds from now.

        :raises LeaseLostError: when another holder took the batch, or it was acknowledged or released meanwhile.
        """

    async def acknowledge(self, claim: Claim) -> None:
        """Record that the consumer has finished the batch; it never gets it again. Twice is once.

        :raises LeaseLostError: when another holder took the batch meanwhile (a lease that ran out, but that nobody
            took, is still good, and so is one of a consumer or a watermark that was forgotten).
        """

    async def release(
        self, claim: Claim, error: str | None = None, *, retry_after: float = 0.0, dead: bool = False
    ) -> None:
        """Give a batch back, to be claimed again; the error is kept with the attempt. A lost lease is ignored.

        :param error: what went wrong; None when nothing did, and the attempt is not counted.
        :param retry_after: seconds for which nobody can claim it.
        :param dead: do not give it back but set it aside: it counts as finished until it is replayed.
        """

    async def bury(self, selector: Selector, consumer: str, max_attempts: int) -> list[DeadBatch]:
        """Set aside what a consumer took so often, did not finish, and does not hold: those whose workers all died.

        :return: the batches that are dead by this call.
        """

    async def pending(self, selector: Selector, consumer: str, limit: int = 1000, *, free: bool = False) -> list[Batch]:
        """Return the batches that a known consumer has not finished, oldest first, without items.

        :param free: only those that could be claimed now.
        """

    async def dead_batches(
        self, selector: Selector | None = None, consumer: str | None = None, limit: int = 1000
    ) -> list[DeadBatch]:
        """Return the batches that were set aside, of one consumer or of all, oldest first."""

    async def consumers(self, selector: Selector | None = None) -> list[ConsumerStatus]:
        """Return every known consumer of every selected watermark, by watermark and name."""

    async def unsubscribe(self, selector: Selector, consumer: str, act: Act | None = None) -> list[WatermarkKey]:
        """Forget a consumer with its claims: nothing is kept or announced for it. Returns where it was known."""

    async def acknowledged(self, selector: Selector, consumer: str, batch_id: str) -> bool:
        """Whether the consumer has acknowledged this batch."""

    async def history(self, key: WatermarkKey, before_seq: int | None = None, limit: int = 100) -> list[Batch]:
        """Return the log of a watermark, newest first, with items, from before a sequence number."""

    async def list_watermarks(self, selector: Selector | None = None) -> list[Watermark]:
        """Return watermarks by asset name, namespace and key."""

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
        """Give batches of the log to a consumer again, or to all that are known, also such as are before its start.

        What is held at the time is left to its holder. Attempts count from 1 again. Who is meant counts as seen.

        :param dead_only: only those that are dead.
        :return: how many batches each consumer gets.
        """

    async def prune(self, key: WatermarkKey, older_than: float, before_seq: int, limit: int = 1000) -> int:
        """Delete the oldest batches that nobody needs, with their claims; returns how many, at most ``limit``.

        Those that were committed over ``older_than`` seconds ago, stand before ``before_seq``, were announced, and that
        every known consumer, if any, has acknowledged. What is dead for somebody stays.
        """

    async def journal(self, key: WatermarkKey | None = None, limit: int = 100) -> list[JournalEntry]:
        """Return what was done by hand with an :class:`Act`, newest first; also of watermarks that were forgotten."""

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool = False, act: Act | None = None
    ) -> Watermark:
        """Set the cursor to any position, whatever the version; a poll under way gets a conflict.

        :param reread: items that were delivered before are delivered again when the next polls read them, also inside
            the lateness window.
        :param rewatch: forget what is watched, and what its source remembered: the next trigger that comes may bring
            another source.
        :param act: recorded in the journal, in the same transaction; None records nothing. So everywhere.
        :return: the watermark, made when there was none; it counts as started.
        """

    async def rewatch(self, key: WatermarkKey, act: Act | None = None) -> Watermark | None:
        """Forget what is watched and keep the position, or that there is none yet: any source may come next.

        What the source remembered is forgotten as well. A poll under way gets a conflict.

        :return: the watermark, or None when there is none.
        """

    async def forget(self, key: WatermarkKey, act: Act | None = None) -> bool:
        """Delete a watermark with its batches, claims and consumers; whether there was one."""

    async def export(self, key: WatermarkKey, place: Place = FIRST, page_bytes: int = PAGE_BYTES) -> Snapshot | None:
        """Return a page of all that belongs to a watermark, or None when there is none.

        :param place: where the page begins, as ``next`` of the page before says.
        :param page_bytes: about how much of it to return, at least one part.
        """

    async def restore(self, page: Snapshot, act: Act | None = None) -> None:
        """Take in one of the pages that :meth:`export` gave, in their order. Twice is once.

        Nothing can be seen under the watermark's name until the last page is there; then it is as it was exported. The
        first page begins anew.

        :param act: recorded in the journal with the last page.
        :raises ConflictError: when there is such a watermark, the page before is missing, or the page is not sound
            (:meth:`core.snapshot.Snapshot.require_sound`); nothing was changed.
        """

    async def aclose(self) -> None:
        """Give back connections. The store may not be used afterwards."""
