"""What of a listing is delivered: pure decisions over objects, with no S3, no clock and no waiting in them.

The order is (last modified, key). A listing comes in any order, so a selection keeps the first so many objects that
are above the cursor, or behind it inside the lateness window and not delivered before, in memory that does not grow
with the listing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from airflow_provider_incremental.sources.s3_ahead import Unlisted
from airflow_provider_incremental.sources.s3_marks import Marks
from airflow_provider_incremental.sources.s3_pages import ListedObject, Position

__all__ = ["Presence", "Selected", "Selection", "is_folder_marker", "window_floor"]

_SORTED_AT_ONCE = 5_000  # few enough that sorting them in does not hold up the event loop
_NONE = Unlisted()
_START_OF_TIME = dt.datetime.min.replace(tzinfo=dt.UTC)


def is_folder_marker(each: ListedObject) -> bool:
    """Whether an object only stands for a folder, as consoles and file systems make them."""
    return each.size == 0 and each.key.endswith("/")


def window_floor(low: Position, lateness: float) -> dt.datetime:
    """Return the time from which objects behind the cursor are read again."""
    try:
        return low[0] - dt.timedelta(seconds=lateness)
    except OverflowError:
        return _START_OF_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """The first objects of a complete listing, in order.

    :param objects: their fields as plain tuples, which the garbage collector need not follow.
    :param cut: whether the listing holds more to deliver than what was kept of it.
    :param newest: the position of the last object under the bound, delivered or not; None when there is none.
    """

    objects: list[tuple[Any, ...]]
    cut: bool
    newest: Position | None


class Selection:
    """Picks what one poll can deliver from the pages of one listing.

    :param low: the position of the cursor; None takes everything.
    :param lateness: seconds behind ``low`` in which objects are taken that were not seen.
    :param bound: objects modified later than this wait for a later poll.
    :param seen: fingerprints of what was delivered before.
    :param wanted: whether an object is one that the user means; the others only move the watermark.
    :param capacity: keep the first so many.
    :param unlisted: what is new behind the window, in partitions that were not listed before.
    :param marks: tells which objects are among those seen.
    :param too_late: told of each object that is older than the window.
    """

    def __init__(
        self,
        *,
        low: Position | None,
        lateness: float,
        bound: dt.datetime,
        seen: AbstractSet[bytes],
        wanted: Callable[[ListedObject], bool],
        capacity: int,
        marks: Marks,
        unlisted: Unlisted = _NONE,
        too_late: Callable[[ListedObject], None] | None = None,
    ) -> None:
        self._low = low
        self._too_late = too_late
        self._floor = _START_OF_TIME if low is None else window_floor(low, lateness)
        self._rereads = lateness > 0
        self._bound = bound
        self._seen = seen
        self._wanted = wanted
        self._capacity = capacity
        self._marks = marks
        self._unlisted = unlisted
        self._kept: list[tuple[Any, ...]] = []
        self._last_kept: Position | None = None
        self._cut = False
        self._newest: Position | None = None

    def offer(self, objects: Iterable[ListedObject]) -> None:
        """Consider the objects of one page."""
        for each in objects:
            if each.last_modified > self._bound:
                continue
            position = each.position
            if self._newest is None or position > self._newest:
                self._newest = position
            if self._is_in_reach(position):
                if self._wanted(each):
                    self._consider(each, position)
            elif self._too_late is not None and each.last_modified < self._floor:
                self._too_late(each)

    def takes(self, each: ListedObject) -> bool:
        """Whether an object is above the cursor, or late and not seen."""
        return self._is_in_reach(each.position) and not self._was_seen(each, each.position)

    def result(self) -> Selected:
        """Return what was selected, after the last page."""
        self._sort()
        return Selected(objects=self._kept, cut=self._cut, newest=self._newest)

    def _is_in_reach(self, position: Position) -> bool:
        if self._low is None or position > self._low:
            return True
        return (self._rereads and position[0] >= self._floor) or self._unlisted.holds(position)

    def _was_seen(self, each: ListedObject, position: Position) -> bool:
        passed = self._low is not None and position <= self._low
        return self._marks.are_in(self._seen, each, passed=passed)

    def _consider(self, each: ListedObject, position: Position) -> None:
        if self._last_kept is not None and position > self._last_kept:
            return
        if self._was_seen(each, position):
            return
        self._kept.append(tuple(each))
        if len(self._kept) >= self._capacity + _SORTED_AT_ONCE:
            self._sort()

    def _sort(self) -> None:
        self._kept.sort()
        # Some servers repeat an object on two pages.
        repeated = {at for at, (one, other) in enumerate(pairwise(self._kept)) if one == other}
        if repeated:
            self._kept = [each for at, each in enumerate(self._kept) if at not in repeated]
        if len(self._kept) > self._capacity:
            self._cut = True
            del self._kept[self._capacity :]
            self._last_kept = self._kept[-1][:2]


class Presence:
    """Notes what is there already, for a start at the newest object: its position, and the window behind it.

    :param lateness: seconds that the window reaches back; infinite to name everything.
    :param bound: objects modified later than this are still to come.
    :param marks: gives what is kept of an object.
    """

    def __init__(self, *, lateness: float, bound: dt.datetime, marks: Marks) -> None:
        self.newest: Position | None = None
        self._keeps = marks.kept
        self._lateness = lateness
        self._bound = bound
        self._marks: list[tuple[dt.datetime, bytes]] = []
        self._prune_at = _SORTED_AT_ONCE

    def offer(self, objects: Iterable[ListedObject]) -> None:
        """Note the objects of one page."""
        for each in objects:
            if each.last_modified > self._bound:
                continue
            if self.newest is None or each.position > self.newest:
                self.newest = each.position
            if self._lateness > 0 and each.last_modified >= window_floor(self.newest, self._lateness):
                self._marks += ((each.last_modified, mark) for mark in self._keeps(each))
        if len(self._marks) >= self._prune_at:
            self._prune()
            self._prune_at = 2 * len(self._marks) + _SORTED_AT_ONCE

    def fingerprints(self) -> tuple[bytes, ...]:
        """Return those of the objects in the window behind the newest, after the last page."""
        self._prune()
        return tuple(mark for _, mark in self._marks)

    def _prune(self) -> None:
        if self.newest is not None:
            floor = window_floor(self.newest, self._lateness)
            self._marks = [(moment, mark) for moment, mark in self._marks if moment >= floor]
