"""The S3 source: the objects of one bucket below a prefix, in the total order of (last modified, key).

What a listing can and cannot tell decides how a poll works:

* Keys come sorted by key, not by time, so a poll lists the whole prefix and nothing of a listing counts before its end.
* An object that is written while the listing runs may land behind the scan. So a poll takes objects only up to a bound:
  the server's own time before the listing began, minus ``settle``. What is newer waits for the next poll.
* A multipart upload is dated when it began and appears when it ends. So each poll also takes objects inside the
  ``lateness`` window behind the cursor whose fingerprint was not delivered before.

Between two polls only ``_left_over`` is kept: the rest of a listing that had more objects than one batch takes. It is
used only when the cursor stands exactly where that batch ended and that batch is among what was seen, so it may be lost
at any time.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Unpack

from airflow_provider_incremental.core.source import Baseline, Found
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.s3_ahead import Ahead
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments
from airflow_provider_incremental.sources.s3_cursor import ahead_of_clock, cursor_from, position_of
from airflow_provider_incremental.sources.s3_filter import removed_item
from airflow_provider_incremental.sources.s3_late import LateCounter
from airflow_provider_incremental.sources.s3_left_over import LeftOver
from airflow_provider_incremental.sources.s3_lessons import Lessons
from airflow_provider_incremental.sources.s3_listing import ListingClient, ListingClientFactory
from airflow_provider_incremental.sources.s3_options import ObjectOptions, ObjectSource
from airflow_provider_incremental.sources.s3_pages import ListedObject, Position
from airflow_provider_incremental.sources.s3_partitions import Partitions
from airflow_provider_incremental.sources.s3_removals import Removals
from airflow_provider_incremental.sources.s3_scope import Scope
from airflow_provider_incremental.sources.s3_selection import Presence, Selection, window_floor

__all__ = ["S3KeySource", "cursor_from"]

log = logging.getLogger(__name__)

_KEPT_OF_A_LISTING = 20_000
_BEHIND_ALL = "\U0010ffff"  # sorts behind every key


class S3KeySource(ObjectSource):
    """Delivers every object below a prefix once for each of its versions that a poll meets.

    :param bucket: the bucket's name.
    :param prefix: only keys that start with it. With ``{date:...}`` in it, only the partitions are listed that lie
        between the cursor minus ``lateness`` and now: see :mod:`~.s3_partitions`.
    :param partition_timezone: the zone of the dates in it.
    :param settle: seconds that the upper edge of a poll stays behind the server's clock; at least 1, because S3 stamps
        objects with whole seconds.
    :param lateness: seconds behind the cursor in which objects that appear late are still delivered: give as long as
        the longest multipart upload takes. 0 turns this off.
    :param removals: whether keys that were delivered, or were there at the start, are reported when they are gone.
    :param client: an aiobotocore S3 client, which stays the caller's, or what makes one:
        ``S3Hook(aws_conn_id=...).get_async_conn``.
    :param conn_id: the connection behind the client, as error messages name it.
    :param monotonic: seconds that never go backwards; for tests.
    :param options: which objects are meant (:class:`~.s3_options.ObjectOptions`); others only move the watermark.
    :raises ConfigurationError: when an argument cannot be used.

    An item is a dictionary of bucket, key, uri (percent-encoded), size, etag, last_modified (aware), version_id (None
    unless ``versioned``) and storage_class; one of a removed object, of bucket, key and uri.

    >>> S3KeySource(bucket="landing", prefix="orders/", client=client).watches.source
    's3://landing/orders/'
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str = "",
        settle: float = 2.0,
        lateness: float = 3600.0,
        client: ListingClient | ListingClientFactory,
        conn_id: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        partition_timezone: str = "UTC",
        removals: bool = False,
        **options: Unpack[ObjectOptions],
    ) -> None:
        check_s3_arguments(
            bucket=bucket,
            prefix=prefix,
            settle=settle,
            lateness=lateness,
            partition_timezone=partition_timezone,
            removals=removals,
            **options,
        )
        partitions = Partitions(prefix, partition_timezone) if Partitions.are_in(prefix) else None
        super().__init__(
            bucket=bucket,
            prefix=prefix,
            static_prefix=partitions.static_prefix if partitions else prefix,
            client=client,
            conn_id=conn_id,
            monotonic=monotonic,
            below=partitions.below if partitions else None,
            **options,
        )
        self.lateness = float(lateness)
        self._settle = dt.timedelta(seconds=settle)
        self._scope = Scope(listing=self._listing, partitions=partitions, lateness=self.lateness)
        self._ahead = Ahead(partitions=partitions, lateness=self.lateness)
        self._late = LateCounter(counts=self._wanted.rules)
        self._lessons = Lessons({"splits": self._scope.splits, "late": self._late})
        self._removals = Removals(listing=self._listing) if removals else None
        self._left_over: LeftOver | None = None

    @property
    def watches(self) -> Watches:
        """The prefix, and a cursor of time and key."""
        return Watches(source=f"s3://{self._bucket}/{self._prefix}", cursor="last_modified,key")

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return the first ``limit`` objects above ``low``, and late ones behind it, in order.

        :raises S3ListingError: when the prefix cannot be listed to its end.
        """
        position = None if low is None else position_of(low)
        known = seen if isinstance(seen, AbstractSet) else frozenset(seen)
        await self._lessons.recall(self.memory)
        await self._ahead.open(self.memory, position)
        if self._removals is not None and not await self._removals.open(self.memory, low) and position is not None:
            return await self._note_what_is_there(self._removals, low, position, known)
        left_over, self._left_over = self._left_over, None
        if left_over is None or not self._goes_on(left_over, position, known):
            left_over = await self._listed(position, max(limit, _KEPT_OF_A_LISTING), known)
        return await self._deliver(left_over, low, position, limit, known)

    async def latest(self) -> Baseline:
        """Return the position of the newest object, and what lies in the window behind it."""
        sweep, samples = await self._scope.begin(None)
        reach = math.inf if self._ignores_overwrites else self.lateness
        presence = Presence(lateness=reach, bound=sweep.asked_at - self._settle, marks=self._marks)
        await self._scope.walk(sweep, presence.offer, samples)
        return self._baseline(presence.newest, presence.fingerprints(), sweep.asked_at)

    async def at(self, cursor: Cursor) -> Baseline:
        """Return a baseline for a start at a cursor, or at a moment: everything behind it counts as delivered."""
        if cursor is None:
            return Baseline(cursor=None)
        position = position_of(cursor)
        if self.lateness <= 0:
            return Baseline(cursor=position)
        marks: list[bytes] = []
        floor = window_floor(position, math.inf if self._ignores_overwrites else self.lateness)

        def note(objects: Sequence[ListedObject]) -> None:
            there = (each for each in objects if each.last_modified >= floor and each.position <= position)
            marks.extend(mark for each in there for mark in self._marks.kept(each))

        sweep, samples = await self._scope.begin(None)
        await self._scope.walk(sweep, note, samples)
        return self._baseline(position, marks, sweep.asked_at)

    def _baseline(self, newest: Position | None, marks: Sequence[bytes], asked_at: dt.datetime) -> Baseline:
        remember = {**self._lessons.changed(), **self._ahead.commit(None, newest, listed_at=asked_at, whole=True)}
        return Baseline(cursor=newest, fingerprints=tuple(marks), remember=remember)

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether the window behind ``low`` reaches down to ``high``."""
        if low is None or high is None:
            return high is not None
        if self._ignores_overwrites:
            return True
        return position_of(high)[0] >= window_floor(position_of(low), self.lateness)

    async def aclose(self) -> None:
        """Give back the client, unless it is the caller's."""
        self._left_over = None
        await super().aclose()

    def _goes_on(self, left_over: LeftOver, position: Position | None, seen: AbstractSet[bytes]) -> bool:
        """Whether a poll may deliver the rest of the listing before.

        That the cursor stands where that batch ended is not enough: a batch of late objects does not move it. So the
        batch must also be among what was seen, which shows that it was committed, and that nobody wants it again. Where
        keys are known, nobody else may have committed since: he may have reported the same removals.
        """
        if left_over.position != position or not left_over.is_fresh(self._monotonic()):
            return False
        if self._removals is not None and left_over.token != self._removals.token:
            return False
        return self.lateness <= 0 or left_over.delivered <= seen

    async def _listed(self, low: Position | None, capacity: int, seen: AbstractSet[bytes]) -> LeftOver:
        sweep, samples = await self._scope.begin(low)
        bound = sweep.asked_at - self._settle
        self._wanted.begin()
        counts_late = samples is not None  # of partitions, there are some that are not listed
        self._late.begin(window_floor(low, self.lateness) if low is not None and counts_late else None)
        too_late = self._count_late if counts_late else None
        selection = self._selection(low, sweep.asked_at, seen, bound=bound, capacity=capacity, too_late=too_late)
        comparison = self._removals.compare() if self._removals is not None else None
        await self._scope.walk(sweep, selection.offer, samples, comparison.follow if comparison else None)
        selected = selection.result()
        newest = selected.newest
        if self._scope.falls_behind(max(filter(None, (low, newest)), default=None), bound):
            newest = bound, _BEHIND_ALL
        return LeftOver(
            objects=deque(selected.objects),
            cut=selected.cut,
            newest=newest,
            missing=deque(comparison.missing() if comparison else ()),
            missing_cut=comparison is not None and comparison.cut,
            note=self._wanted.note() if low is None or low[0] <= bound else ahead_of_clock(low, bound),
            late=self._late.end(),
            listed_at=self._monotonic(),
            asked_at=sweep.asked_at,
            whole=samples is not None,
        )

    def _selection(
        self,
        low: Position | None,
        asked_at: dt.datetime,
        seen: AbstractSet[bytes],
        *,
        bound: dt.datetime,
        capacity: int,
        too_late: Callable[[ListedObject], None] | None = None,
    ) -> Selection:
        return Selection(
            low=low,
            lateness=self.lateness,
            bound=bound,
            seen=seen,
            wanted=self._wanted,
            capacity=capacity,
            marks=self._marks,
            unlisted=self._ahead.unlisted(low, asked_at),
            too_late=too_late,
        )

    def _count_late(self, each: ListedObject) -> None:
        if self._wanted.means(each):
            self._late.offer(each)

    async def _note_what_is_there(
        self, removals: Removals, low: Cursor, position: Position, seen: AbstractSet[bytes]
    ) -> Found:
        sweep, _ = await self._scope.begin(position)
        self._wanted.begin()
        selection = self._selection(position, sweep.asked_at, seen, bound=sweep.asked_at, capacity=1)
        return await removals.note(low, sweep.ranges, lambda each: self._wanted(each) and not selection.takes(each))

    async def _deliver(
        self, listed: LeftOver, low: Cursor, position: Position | None, limit: int, seen: AbstractSet[bytes]
    ) -> Found:
        taken = listed.take(limit, self._marks, seen)
        gone = listed.take_missing(limit)
        late = listed.take_late()
        if late:
            where = self._listing.place
            log.warning(
                "%s: %d objects appeared later than lateness=%g and are not delivered", where, late, self.lateness
            )
        all_taken = not listed.objects and not listed.cut
        reached = [position, listed.newest if all_taken else None, *(each.position for each in taken.values())]
        end = max((each for each in reached if each is not None), default=None)
        high = low if end == position else end
        remember: dict[str, bytes | None] = {}
        if taken or gone or late or high != low:
            remember |= self._lessons.changed()
            remember |= self._ahead.commit(position, end, listed_at=listed.asked_at, whole=listed.whole)
            if self._removals is not None:
                added = [each.key for each in taken.values()]
                remember |= await self._removals.commit(high=high, added=added, removed=gone)
        if listed.rest:
            listed.position, listed.delivered = end, frozenset(taken)
            listed.token = self._removals.token if self._removals is not None else ""
            self._left_over = listed
        return Found(
            high=high,
            items=[self._item(each) for each in taken.values()],
            fingerprints=[mark for each in taken.values() for mark in self._marks.kept(each)],
            more=listed.more,
            late_skipped=late,
            note=listed.note,
            removed=[removed_item(self._bucket, key) for key in gone if self._wanted.names(key)],
            remember=remember,
        )
