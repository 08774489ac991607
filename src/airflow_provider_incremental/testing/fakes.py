"""A clock and a source that do what a test says, and nothing else."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES
from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import Cursor, Watches

__all__ = ["FakeClock", "ListItem", "ListSource"]

_PATIENCE = 20.0
_TURNS = 4  # of the event loop: the end of one task may wake another by way of callbacks
_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@dataclass(order=True, slots=True)
class _Sleeper:
    wakes: float
    number: int
    task: asyncio.Task[Any] | None = field(compare=False)
    waiting: asyncio.Future[None] = field(compare=False)


class FakeClock:
    """A clock that stands still until the test moves it; tasks that sleep on it wake in order, each at its own time.

    :param start: the instant it shows first.

    >>> clock = FakeClock()
    >>> clock.advance(90.5)
    >>> clock.now().isoformat()
    '2026-01-01T12:01:30.500000+00:00'
    """

    def __init__(self, *, start: dt.datetime = _NOON) -> None:
        self._start = start
        self._elapsed = 0.0
        self._shift = dt.timedelta()
        self._sleepers: list[_Sleeper] = []
        self._slept = 0

    def now(self) -> dt.datetime:
        """Return the instant that the test has reached, in UTC."""
        return self._start + self._shift + dt.timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Return the seconds that the test has let pass."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the clock that far; no time at all only lets other tasks run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._slept += 1
        waiting = asyncio.get_running_loop().create_future()
        sleeper = _Sleeper(self._elapsed + seconds, self._slept, asyncio.current_task(), waiting)
        heapq.heappush(self._sleepers, sleeper)
        try:
            await waiting
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move the clock at once and wake whoever has slept long enough; they run when the test next awaits."""
        self._move(self._elapsed + seconds)

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back, as an administrator does; nobody sleeps shorter or longer for it."""
        self._shift += dt.timedelta(seconds=seconds)

    async def run_for(self, seconds: float) -> None:
        """Let that much time pass, stopping wherever a sleeper wakes, until everything sleeps again."""
        end = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0].wakes <= end:
            self._move(self._sleepers[0].wakes)
            await self.settle()
        self._move(end)
        await self.settle()

    async def settle(self, *tasks: asyncio.Task[Any]) -> None:
        """Run until every task has ended or sleeps on this clock, without moving it.

        :param tasks: the tasks to wait for; by default every task of the event loop but the one that asks.
        :raises TimeoutError: when one of them neither ends nor sleeps: it spins, or waits for something else.
        """
        limit = time.monotonic() + _PATIENCE
        quiet = 0
        while quiet < _TURNS:
            busy = self._busy(tasks)
            if busy and time.monotonic() > limit:
                msg = f"still busy after {_PATIENCE:.0f} s without any time passing: {busy}"
                raise TimeoutError(msg)
            quiet = 0 if busy else quiet + 1
            await asyncio.sleep(0)

    def _busy(self, tasks: Collection[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        asleep = {sleeper.task for sleeper in self._sleepers if not sleeper.waiting.done()}
        asked = set(tasks) or asyncio.all_tasks() - {asyncio.current_task()}
        return [task for task in asked if not task.done() and task not in asleep]

    def _move(self, instant: float) -> None:
        self._elapsed = max(self._elapsed, instant)
        while self._sleepers and self._sleepers[0].wakes <= self._elapsed:
            sleeper = heapq.heappop(self._sleepers)
            if not sleeper.waiting.done():
                sleeper.waiting.set_result(None)


@dataclass(frozen=True, slots=True, order=True)
class ListItem:
    """One item of a :class:`ListSource`: when it says it was made, its unique name, and what a consumer gets."""

    at: float
    name: str
    value: Any = field(default=None, compare=False)

    @property
    def cursor(self) -> tuple[float, str]:
        """Where the item stands: items of one time are told apart, and ordered, by name."""
        return (self.at, self.name)

    @property
    def fingerprint(self) -> bytes:
        """What the item is known by when it is read again."""
        return hashlib.sha256(dumps(self.cursor).encode()).digest()[:FINGERPRINT_BYTES]


class ListSource(Source):
    """A source over a list, in order of time and name, with everything that makes real sources hard.

    Items may share a time, appear late, or lie above the bound of the poll; polls may fail, and may wait for a test.

    :param items: what is there at first.
    :param lateness: how far behind the cursor a poll reads again, in the unit of ``ListItem.at``.
    :param name: what ``watches`` says of the source.

    >>> source = ListSource(lateness=10)
    >>> source.add(5.0, "a")
    ListItem(at=5.0, name='a', value=None)
    """

    def __init__(self, items: Iterable[ListItem] = (), *, lateness: float = 0.0, name: str = "list") -> None:
        self.items = set(items)
        self.lateness = lateness
        self.name = name
        self.bound: float | None = None
        """Items after this time are not read yet, as under the upper bound of a real source. None: no bound."""
        self.errors: deque[Exception] = deque()
        """Raised by the next reads, one each, before any item is looked at."""
        self.before_return: Callable[[], Awaitable[object]] | None = None
        """Awaited by each poll after it has read and before it returns."""
        self.late_skipped = 0
        """What the next poll that succeeds reports as too late for the window."""
        self.polls: list[Cursor] = []
        """The cursor of every poll that began."""
        self.closed = False

    def add(self, at: float, name: str, value: Any = None) -> ListItem:
        """Put an item in; one whose time is behind the watermark is a late one."""
        item = ListItem(at, name, value)
        self.items.add(item)
        return item

    @property
    def watches(self) -> Watches:
        """The source's name, and the one shape of cursor it has."""
        return Watches(source=self.name, cursor="at, name")

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return the items above ``low``, and those inside the lateness window that nobody has seen."""
        self.polls.append(low)
        self._fail()
        found, high, more = list[ListItem](), low, False
        for item in self._readable():
            if self._is_below(item, low) or item.fingerprint in seen:
                continue
            if len(found) == limit:
                more = True
                break
            found.append(item)
        last = found[-1] if more else max(self._readable(), default=None)
        if last is not None and (low is None or last.cursor > tuple(low)):
            high = last.cursor
        if self.before_return is not None:
            await self.before_return()
        marks = [item.fingerprint for item in found] if self.lateness else []
        late, self.late_skipped = self.late_skipped, 0
        return Found(high=high, items=[_form(item) for item in found], fingerprints=marks, more=more, late_skipped=late)

    async def latest(self) -> Baseline:
        """Return the position of the newest item, with the fingerprints of those in its window."""
        self._fail()
        newest = max(self._readable(), default=None)
        return await self.at(None if newest is None else newest.cursor)

    async def at(self, cursor: Cursor) -> Baseline:
        """Return a position with the fingerprints of the items that lie in its window already."""
        if cursor is None or not self.lateness:
            return Baseline(cursor=cursor)
        there = [item for item in self._readable() if item.cursor <= tuple(cursor) and not self._is_below(item, cursor)]
        return Baseline(cursor=cursor, fingerprints=[item.fingerprint for item in there])

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether a batch that ended at ``high`` reaches into the window behind ``low``."""
        if not self.lateness or high is None:
            return False
        return low is None or bool(high[0] >= low[0] - self.lateness)

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def _readable(self) -> list[ListItem]:
        return sorted(item for item in self.items if self.bound is None or item.at <= self.bound)

    def _is_below(self, item: ListItem, low: Cursor) -> bool:
        if low is None:
            return False
        return item.at < low[0] - self.lateness if self.lateness else item.cursor <= tuple(low)

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.popleft()


def _form(item: ListItem) -> dict[str, Any]:
    return {"at": item.at, "name": item.name, "value": item.value}
