"""How many objects appeared too late to be delivered: what lies behind the window is compared with the poll before.

Objects that are older than the window are counted in a thousand parts, by key. What a part has more than before came
meanwhile; a deletion hides it only where it falls into the same part. So the number is one that is sure, and the
memory does not grow with the bucket. It begins anew with each process.
"""

from __future__ import annotations

import datetime as dt

from airflow_provider_incremental.sources.s3_pages import ListedObject

__all__ = ["LateCounter"]

_PARTS = 1024


class LateCounter:
    """Counts over the listings of one source."""

    def __init__(self) -> None:
        self._floor: dt.datetime | None = None
        self._counts = [0] * _PARTS
        self._next_floor: dt.datetime | None = None
        self._again = [0] * _PARTS
        self._next = [0] * _PARTS

    def begin(self, floor: dt.datetime | None) -> None:
        """Begin a listing.

        :param floor: the time from which objects are delivered; None when all are.
        """
        self._next_floor = floor
        self._again, self._next = [0] * _PARTS, [0] * _PARTS

    def offer(self, each: ListedObject) -> None:
        """Count an object that is older than the window."""
        part = hash(each.key) % _PARTS
        self._next[part] += 1
        if self._floor is not None and each.last_modified < self._floor:
            self._again[part] += 1

    def end(self) -> int:
        """Return how many were not there at the end of the listing before; to be called after a complete one."""
        late = 0
        if self._floor is not None and self._next_floor is not None and self._next_floor >= self._floor:
            late = sum(max(now - before, 0) for now, before in zip(self._again, self._counts, strict=True))
        self._floor, self._counts = self._next_floor, self._next
        return late
