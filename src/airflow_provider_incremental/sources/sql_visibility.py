"""Which rows are all there: what transactions that are still open can add lies above the edge that is kept here.

A row carries a stamp or a number from before its transaction commits. Until every transaction that could carry a
smaller one has ended, the watermark may not pass it. What is decided here is decided from looks at the database, each
of which tells a mark and the transactions that are open. What is true of every look:

* the mark (an instant, or the greatest cursor that was seen) is taken before the open transactions are read, so a
  transaction that is not among them has ended, and shows to whoever reads later, or begins after the mark;
* so the floor of a transaction, below which it adds nothing, is the mark of the last look that did not show it, unless
  the database records something better;
* the edge is the lowest floor, and never above the mark. It holds for every statement that begins after the look.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Edge", "Floor", "Horizon", "Look", "OpenTransaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not ended.

    :param id: tells it from every other, also from the next one of the same session.
    :param who: the session or the name, for people.
    :param age: seconds that it has been open, as far as the database knows.
    :param floor: the lowest value that it can still add, where the database records when it began.
    :param heir_of: how the ids begin under which it may have been seen before; None: under no other id.
    :param at_most: the seconds that it has been open at most; None where it may be any.
    """

    id: str
    who: str
    age: float
    floor: Any = None
    heir_of: str | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at the database tells.

    :param now: the database's clock, before the transactions were read.
    :param mark: no transaction that is not in ``open`` and begins later adds anything below it.
    """

    now: dt.datetime
    mark: Any
    open: Sequence[OpenTransaction]


@dataclass(frozen=True, slots=True)
class Floor:
    """A value with its place in time: cursors are compared by the database only, looks are counted here."""

    order: Any
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Up to where every row is there.

    :param floor: a mark or a floor with its place in time; None when nothing is known to be complete yet.
    :param mark: that of the look.
    :param now: the database's clock at the look.
    :param holder: the transaction that keeps it below the mark.
    :param passed: the transactions that hold it no longer, since they have been open for longer than is waited for.
    """

    floor: Floor | None
    mark: Floor
    now: dt.datetime
    holder: OpenTransaction | None = None
    passed: Sequence[OpenTransaction] = ()

    @property
    def value(self) -> Any:
        """The instant, or the cursor; None when nothing is known to be complete yet."""
        return None if self.floor is None else self.floor.value

    def reaches(self, mark: Floor) -> bool:
        """Whether every row up to the mark of an earlier look is there."""
        return self.floor is not None and bool(self.floor.order >= mark.order)


class Horizon:
    """Follows the open transactions of a database from look to look.

    :param by_value: whether marks are instants and compare by themselves; else the later look has the greater mark.
    :param max_hold: seconds after which an open transaction is not waited for any more; None: it always is.
    """

    def __init__(self, *, by_value: bool, max_hold: float | None = None) -> None:
        self._by_value = by_value
        self._max_hold = max_hold
        self._looks = 0
        self._last: tuple[dt.datetime, Floor] | None = None
        self._floors: dict[str, Floor | None] = {}

    def look(self, look: Look) -> Edge:
        """Take note of a look, and return the edge that it gives."""
        self._looks += 1
        mark = Floor(look.mark if self._by_value else self._looks, look.mark)
        floors = {each.id: self._floor(each, look) for each in look.open}
        self._floors, self._last = floors, (look.now, mark)
        held = [each for each in look.open if not self._is_passed(each)]
        passed = [each for each in look.open if self._is_passed(each) and _below(floors[each.id], mark)]
        unknown = [each for each in held if floors[each.id] is None]
        if unknown:
            return Edge(floor=None, mark=mark, now=look.now, holder=max(unknown, key=_age), passed=passed)
        edge, holder = mark, None
        for each in held:
            floor = floors[each.id]
            if floor is not None and floor.order < edge.order:
                edge, holder = floor, each
        return Edge(floor=edge, mark=mark, now=look.now, holder=holder, passed=passed)

    def forget(self) -> None:
        """Begin anew: what was known of the transactions does not count any more."""
        self._last, self._floors = None, {}

    def _is_passed(self, each: OpenTransaction) -> bool:
        return self._max_hold is not None and each.age > self._max_hold

    def _floor(self, each: OpenTransaction, look: Look) -> Floor | None:
        """Return below what a transaction adds nothing; None when that is not known."""
        if each.floor is not None:
            return Floor(each.floor, each.floor)
        if self._last is None:
            return None
        then, mark = self._last
        if each.at_most is not None and each.at_most < (look.now - then).total_seconds():
            return mark
        if each.id in self._floors:
            return self._floors[each.id]
        if each.heir_of is None:
            return mark
        inherited = list(self._left_by(each.heir_of, look.open))
        if None in inherited:
            return None
        return min([mark, *(floor for floor in inherited if floor)], key=lambda floor: floor.order)

    def _left_by(self, prefix: str, now_open: Sequence[OpenTransaction]) -> Iterator[Floor | None]:
        still = {each.id for each in now_open}
        for known, floor in self._floors.items():
            if known.startswith(prefix) and known not in still:
                yield floor


def _below(floor: Floor | None, mark: Floor) -> bool:
    return floor is None or floor.order < mark.order


def _age(each: OpenTransaction) -> float:
    return each.age
