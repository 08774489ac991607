"""The one order of things: poll, commit, announce, confirm, claim, acknowledge.

:class:`Feed` is the half that a trigger runs, :class:`core.intake.Intake` the half that a consumer runs. Nothing else
calls these operations in sequence. What is true at every ``await``:

* A batch that was committed is due for announcement until it is confirmed, and for a known consumer until that
  consumer acknowledges it, whatever becomes of this process: both facts are in the store, not here.
* ``_flights`` only keeps this process from announcing twice what it has just announced; losing it costs an
  announcement, never a batch. The pace of announcements is kept in the store, for all processes.
* The watermark moves only together with the batches that it moved over, and only from the version that the poll
  started at. So a second feed of the same watermark is wasted work, never a gap and never a repetition.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from dataclasses import dataclass

from airflow_provider_incremental.core.announcement import Announcement
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.chores import Chores
from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.contained import contained
from airflow_provider_incremental.core.errors import ConflictError, SourceError, WatchesAnotherSourceError
from airflow_provider_incremental.core.pace import FeedSettings, StartAt, backoff
from airflow_provider_incremental.core.polls import Polls
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.source import Found, Source, require_baseline, require_progress
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.trouble import Trouble, told_to_stop, whatever_happens
from airflow_provider_incremental.core.wake import Wake
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watermark, WatermarkKey
from airflow_provider_incremental.core.window import SeenWindow, StoredMemory

__all__ = ["Feed"]

log = logging.getLogger(__name__)

_HEAD_START = 5.0
"""Seconds that a poll has for itself, before announcements go on beside it."""
_LONGEST_START_WAIT = 60.0
_STORE_RETRY = 5.0

Poll = Callable[[Cursor, int, Collection[bytes]], Awaitable[Found]]
Commit = Callable[[Watermark, Found, PollReport], Awaitable[Watermark]]


@dataclass(slots=True)
class _Flight:
    announcement: Announcement
    since: float


class Feed:
    """Reads one source into one watermark's batch log and announces what waits there, for ever.

    :param poll: replaces the source's own poll, and :param commit: the store's commit, for who extends a trigger.
    """

    def __init__(
        self,
        *,
        key: WatermarkKey,
        store: WatermarkStore,
        source: Source,
        settings: FeedSettings,
        clock: Clock,
        poll: Poll | None = None,
        commit: Commit | None = None,
    ) -> None:
        self.key = key
        self.low: Cursor = None
        self.note: str | None = None
        self._store = store
        self._source = source
        self._settings = settings
        self._clock = clock
        self._poll = poll or source.poll
        self._commit = commit or self.commit
        self._window = SeenWindow(store, source)
        self._chores = Chores(key=key, store=store, settings=settings, clock=clock)
        self._wake = Wake(source.changed, clock)
        self._polls = Polls(self._poll_step, clock)
        source.memory = StoredMemory(store, key)
        self._owned = False
        self._loaded: Watermark | None = None
        self._flights: list[_Flight] = []
        self._failures = 0
        self._trouble = Trouble(f"watermark {key}")
        self._conflicts = 0
        self._next_poll = 0.0
        self._next_check = 0.0
        self._announce_from = 0.0

    async def announcements(self) -> AsyncGenerator[Announcement, None]:
        """Poll, commit and announce without end; an error backs off and shows in the watermark's status.

        Cancel the task to stop. Nothing but cancellation leaves this generator.
        """
        await self._honour_last_poll()
        async with self._wake, self._polls:
            while True:
                if not self._polls.under_way and self._clock.monotonic() >= self._next_poll:
                    self._polls.begin()
                    await self._wait_for_poll(_HEAD_START)
                announcement = await self._announce_step()
                if announcement is not None:
                    yield announcement
                if self._polls.under_way:
                    await self._wait_for_poll(self._pause())
                elif await self._wake.rest(self._pause()) and not self._failures:
                    self._next_poll = self._clock.monotonic()

    async def confirm(self, announcement: Announcement) -> None:
        """Airflow has stored the event: its batches are delivered, and wait for their consumers only.

        A confirmation that the store does not take is logged; the batches are then announced again.
        """
        try:
            await self._store.confirm(self.key, announcement.batch_ids)
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            log.warning("watermark %s: a confirmation was not stored: %s", self.key, describe(error))
        finally:  # not before: until the store knows, only the flight keeps these batches from being announced again
            self.drop(announcement)

    def drop(self, announcement: Announcement) -> None:
        """Airflow has not stored the event: its batches are due again."""
        self._flights = [flight for flight in self._flights if flight.announcement is not announcement]

    async def commit(self, watermark: Watermark, found: Found, report: PollReport) -> Watermark:
        """Commit what a poll found: the move of the watermark and the batch, or neither.

        :raises ConflictError: when somebody else moved the watermark since the poll began.
        """
        edges, marks, gone = {"low": watermark.cursor, "high": found.high}, found.fingerprints, found.removed
        new = [NewBatch(**edges, items=found.items, count=found.size, fingerprints=marks)] if found.size else []
        marks = () if new else marks  # once, with whichever batch there is: a row marked as deleted is read again, too
        new += [NewBatch(**edges, items=gone, count=len(gone), kind="removed", fingerprints=marks)] if gone else []
        moved, _ = await self._store.commit(watermark, found.high, new, report, found.remember)
        return moved

    async def _honour_last_poll(self) -> None:
        """A trigger that is restarted every second must not poll its source every second."""
        with whatever_happens():  # the first poll meets the same trouble, and reports it
            watermark = await self._store.load(self.key)
            if watermark is None or watermark.watches != self._source.watches:
                return
            self._owned = True
            last = watermark.status.last_poll_at
            if last is not None:
                since = (self._clock.now() - last).total_seconds()
                wait = min(self._settings.poll_interval, _LONGEST_START_WAIT) - max(since, 0.0)
                self._next_poll = self._clock.monotonic() + max(wait, 0.0)

    async def _wait_for_poll(self, seconds: float) -> None:
        try:
            await self._polls.wait(seconds)
        except SourceError as error:
            await self._back_off(error)

    async def _poll_step(self) -> None:
        began = self._clock.monotonic()
        try:
            more = await self._poll_and_commit()
        except ConflictError:
            self._conflicts += 1
            self._next_poll = began
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            self._owned = self._owned and not isinstance(error, WatchesAnotherSourceError)
            await self._back_off(error)
        else:
            self._failures = 0
            self._trouble.ends("poll")
            self._next_poll = began if more else began + self._settings.poll_interval

    async def _poll_and_commit(self) -> bool:
        """One poll and its commit; whether another one should follow at once."""
        watermark = self._loaded or await self._started()
        self._loaded = None
        self.low = watermark.cursor
        seen = await self._window.load(watermark)
        with contained():
            found = await self._poll(watermark.cursor, self._settings.limit, seen)
        require_progress(self._source, watermark.cursor, found)
        report = PollReport(
            error=self._trouble.of("announcement"),
            conflicts=self._conflicts,
            late_skipped=found.late_skipped,
            note=found.note or self.note,
            next_poll_in=self._settings.poll_interval,
        )
        moved = bool(found.size or found.removed or found.remember) or found.high != watermark.cursor
        if moved or not watermark.started:
            watermark = await self._commit(watermark, self._window.noted(found), report)
            self._window.follow(watermark)
            self._next_check = min(self._next_check, self._announce_from)
        else:
            await self._store.report(self.key, report)
        self._conflicts = 0
        more = found.more and moved
        self._loaded = watermark if more else None
        await self._chores.do(self._window.oldest_seq)
        return more

    async def _started(self) -> Watermark:
        """Load the watermark; the first time, decide where it starts, and keep that decision."""
        watermark = await self._store.load(self.key)
        if watermark is None or watermark.watches != self._source.watches:
            watermark = await self._store.register(self.key, self._source.watches)
        self._owned = True
        start = self._settings.start
        if watermark.started or start == "earliest":
            return watermark
        baseline = await (self._source.at(start.cursor) if isinstance(start, StartAt) else self._source.latest())
        require_baseline(self._source, baseline)
        there = NewBatch(low=None, high=baseline.cursor, kind="baseline", fingerprints=baseline.fingerprints)
        batches = [there] if baseline.fingerprints else []
        report = PollReport(next_poll_in=self._settings.poll_interval)
        moved, _ = await self._store.commit(watermark, baseline.cursor, batches, report, baseline.remember)
        return moved

    async def _announce_step(self) -> Announcement | None:
        now = self._clock.monotonic()
        try:
            await self._confirm_inferred(now)
            if not self._owned or now < self._next_check:
                return None
            announcement = await self._due(now)
        except (Exception, asyncio.CancelledError) as error:
            if told_to_stop(error):
                raise
            self._next_check = now + _STORE_RETRY
            self._trouble.begins("announcement", error)
            return None
        self._trouble.ends("announcement")
        if announcement is not None:
            self._flights.append(_Flight(announcement, now))
        return announcement

    async def _due(self, now: float) -> Announcement | None:
        """What to announce now, if anything is due and nobody announced just before; and when to look again."""
        settings = self._settings
        flying = frozenset[int]().union(*(flight.announcement.seqs for flight in self._flights))
        # Before the store is asked: a poll that commits meanwhile brings it forward.
        self._next_check = now + min(settings.poll_interval, settings.redeliver_after)
        batches = await self._store.due(self.key, settings.redeliver_after, flying, settings.inline_bytes)
        if not batches:
            return None
        announcement = Announcement(self.key, await self._store.identity(), batches)
        wait = await self._store.begin_announcement(self.key, batches[-1].seq, settings.announce_interval)
        self._announce_from = self._next_check = now + (wait or settings.announce_interval)
        return None if wait else announcement

    async def _confirm_inferred(self, now: float) -> None:
        after = self._settings.confirm_after
        for flight in [flight for flight in self._flights if after is not None and now >= flight.since + after]:
            await self.confirm(flight.announcement)

    def _pause(self) -> float:
        wake = [math.inf if self._polls.under_way else self._next_poll]
        if self._owned:
            wake.append(self._next_check)
        if self._settings.confirm_after is not None:
            wake += [flight.since + self._settings.confirm_after for flight in self._flights]
        return max(min(wake) - self._clock.monotonic(), 0.0)

    async def _back_off(self, error: BaseException) -> None:
        self._failures += 1
        wait = backoff(self._settings.poll_interval, self._failures)
        self._next_poll = self._clock.monotonic() + wait
        report = PollReport(
            error=self._trouble.begins("poll", error),
            failures=self._failures,
            conflicts=self._conflicts,
            note=self.note,
            next_poll_in=wait,
        )
        with whatever_happens():  # when the store is what fails, the log has to do
            await self._store.report(self.key, report)
            self._conflicts = 0
