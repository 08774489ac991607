"""A source: what lies above a cursor. It knows nothing of Airflow, of stores, or of time that is not passed in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.core.watermark import Cursor, Watches

__all__ = ["Baseline", "Found", "Source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one complete poll found above a cursor.

    :param high: where the watermark moves to; the cursor that was given when nothing lies above it.
    :param items: what was found, in the source's order. Values as :func:`core.values.encode` takes them.
    :param count: how many; by default the length of ``items`` (a source may deliver bounds and a count only).
    :param fingerprints: one of 16 bytes for each item, when the source re-reads a lateness window.
    :param more: whether the limit cut the poll short, so that the next poll should follow at once.
    :param late_skipped: items that appeared too late to be inside the lateness window: counted, not delivered.
    :param note: one line for the status, such as what the poll is held back by.
    """

    high: Cursor
    items: Sequence[Any] = ()
    count: int | None = None
    fingerprints: Sequence[bytes] = ()
    more: bool = False
    late_skipped: int = 0
    note: str | None = None

    @property
    def size(self) -> int:
        """How many items the slice holds."""
        return len(self.items) if self.count is None else self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Where "latest" starts: the position of the newest item now, or None for an empty source.

    ``fingerprints`` names the items that are there already and lie in the lateness window, so that they are not
    mistaken for late ones.
    """

    cursor: Cursor
    fingerprints: Sequence[bytes] = ()


class Source(ABC):
    """What to implement for a source of your own; see ``example_dags/example_custom_source.py``.

    Two rules. A poll that could not read everything up to its upper bound raises: an error is never "nothing new".
    And the order is total: no two items compare equal, or a limit would lose one of them.
    """

    lateness: float = 0.0
    """Seconds behind the cursor that each poll reads again, for items that appeared late; 0: it reads none again."""

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
        """Whether a batch that ended at ``high`` may hold items that a poll from ``low`` reads again. Default: no."""
        return False

    async def aclose(self) -> None:
        """Give back clients and connections. Called once; the default has none."""
