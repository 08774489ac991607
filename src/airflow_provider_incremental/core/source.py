"""A source: what lies above a cursor. It knows nothing of Airflow, of stores, or of time that is not passed in."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Protocol

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.watermark import Cursor, Watches

__all__ = ["NOTHING", "Baseline", "Found", "Memory", "Pieces", "Source", "require_baseline", "require_progress"]

Pieces = Mapping[str, bytes | None]
"""Changes to what a source remembers: each piece by its name, None to forget it. Names are ASCII, at most 250 long."""

NOTHING: Pieces = MappingProxyType({})


_LONGEST_NAME = 250


def _require_names(pieces: Pieces) -> None:
    """Refuse names that one of the databases would compare or sort in a way of its own."""
    for name in pieces:
        plain = name.isascii() and name.isprintable() and not name.endswith(" ")  # MySQL ignores blanks at the end
        if not name or len(name) > _LONGEST_NAME or not plain:
            msg = (
                f"remember has a piece named {name[:60]!r}; give 1 to {_LONGEST_NAME} printable ASCII characters, "
                "without a blank at the end"
            )
            raise SourceError(msg)


class Memory(Protocol):
    """What a source remembers beside its cursor: named pieces of bytes, as the last commit left them."""

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        """Return the pieces whose names start with ``prefix`` and come after ``after``, in order of their names."""


class _Blank:
    """The memory of a source that nobody feeds yet."""

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one complete poll found above a cursor.

    :param high: where the watermark moves to; the cursor that was given when nothing lies above it.
    :param items: what was found, in the source's order. Values as :func:`core.values.encode` takes them.
    :param count: how many; by default the length of ``items`` (a source may deliver bounds and a count only).
    :param fingerprints: of 16 bytes, one or more for each item, when the source re-reads a lateness window.
    :param more: whether the limit cut the poll short, so that the next poll should follow at once; when nothing was
        found, it follows at the usual pace.
    :param late_skipped: items that appeared too late to be inside the lateness window: counted, not delivered.
    :param note: one line for the status, such as what the poll is held back by.
    :param removed: what is gone from the source since it was delivered, as items of a batch of its own.
    :param remember: what to change in :attr:`Source.memory`, in the transaction that moves the watermark. A poll that
        found nothing is committed for its sake, so give it only when it matters.
    """

    high: Cursor
    items: Sequence[Any] = ()
    count: int | None = None
    fingerprints: Sequence[bytes] = ()
    more: bool = False
    late_skipped: int = 0
    note: str | None = None
    removed: Sequence[Any] = ()
    remember: Pieces = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no store could keep."""
        _require_names(self.remember)

    @property
    def size(self) -> int:
        """How many items the slice holds."""
        return len(self.items) if self.count is None else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Where "latest" starts: the position of the newest item now, or None for an empty source.

    ``fingerprints`` names the items that are there already and lie in the lateness window, so that they are not
    mistaken for late ones; ``remember`` is what to keep in :attr:`Source.memory`.
    """

    cursor: Cursor
    fingerprints: Sequence[bytes] = ()
    remember: Pieces = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no store could keep."""
        _require_names(self.remember)


def require_baseline(source: Source, answer: object) -> None:
    """Refuse what is no :class:`Baseline`.

    :raises SourceError: naming the source's class, and what to return.
    """
    if not isinstance(answer, Baseline):
        shown = "nothing" if answer is None else f"a value of type {type(answer).__name__}"
        msg = f"{type(source).__name__}.latest() or at() returned {shown}; return Baseline(cursor=...)"
        raise SourceError(msg)


def require_progress(source: Source, low: Cursor, found: Found) -> None:
    """Refuse a poll that would be found again for ever, or that takes the watermark back.

    :raises SourceError: naming the source's class, and what it returned.
    """
    name, edges = type(source).__name__, f"low={low!r:.200}, high={found.high!r:.200}"
    if found.items and found.high == low and source.lateness <= 0:
        msg = (
            f"{name}.poll() returned {len(found.items)} items, but {edges}: the next poll would find them again. "
            "Return the cursor of the last item as high"
        )
        raise SourceError(msg)
    if _is_before(found.high, low):
        msg = f"{name}.poll() returned {edges}: a watermark never moves back. Return items above low only, in order"
        raise SourceError(msg)


def _is_before(high: Cursor, low: Cursor) -> bool:
    """Whether a cursor is certainly before another: of texts, only the source knows their order."""
    if low is not None and high is None:
        return True
    for new, old in zip(*(each if isinstance(each, tuple) else (each,) for each in (high, low)), strict=False):
        if type(new) is not type(old) or not isinstance(new, (int, float, Decimal, dt.date)):
            return False
        if isinstance(new, dt.datetime) and (new.tzinfo is None) != (old.tzinfo is None):
            return False
        if new != old:
            return bool(new < old)
    return False


class Source(ABC):
    """What to implement for a source of your own; see ``example_dags/example_custom_source.py``.

    Two rules. A poll that could not read everything up to its upper bound raises: an error is never "nothing new".
    And the order is total: no two items compare equal, or a limit would lose one of them.
    """

    lateness: float = 0.0
    """Seconds behind the cursor that each poll reads again, for items that appeared late; 0: it reads none again."""

    memory: Memory = _Blank()
    """What earlier polls gave as ``Found.remember``; whoever feeds from the source sets it before the first poll."""

    @property
    @abstractmethod
    def watches(self) -> Watches:
        """What is watched, and the shape of the cursor: a watermark refuses to be moved by another source."""

    @abstractmethod
    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return what lies above ``low``, in order.

        :param low: the cursor of the watermark; None for "from the very start".
        :param limit: at most so many items.
        :param seen: fingerprints of the items inside the lateness window that were delivered before.
        :raises SourceError: when the source cannot be read as configured; any other exception counts as temporary.
        """

    @abstractmethod
    async def latest(self) -> Baseline:
        """Return the present end of the source, for ``start="latest"``."""

    async def at(self, cursor: Cursor) -> Baseline:
        """Return the baseline for a start at a given cursor.

        A source with a lateness window names what lies in it already; the default has no such window.
        """
        return Baseline(cursor=cursor)

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether a batch that ended at ``high`` may hold items that a poll from ``low`` reads again. Default: no.

        What is outside the window of one position is outside that of every later one; only at None that need not be.
        """
        return False

    def changed(self) -> Awaitable[None] | None:
        """Return what to wait for beside the next poll: when it ends, there may be something new, and a poll follows.

        It should not raise: what it waits on is its own to restore. The default is None: only polls tell.
        """
        return None

    async def aclose(self) -> None:
        """Give back clients and connections. Called once; the default has none."""
