"""How many objects appeared too late to be delivered: what lies behind the window is compared with the poll before.

Objects that are older than the window are counted in a thousand parts, by key. What a part has more than before came
meanwhile; a deletion hides it only where it falls into the same part. So the number is one that is sure, and the
memory does not grow with the bucket. What is counted is kept with the watermark, so that it outlives the process.
"""

from __future__ import annotations

import datetime as dt
import json
import zlib

from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order

__all__ = ["LateCounter"]

_PARTS = 1024


class LateCounter:
    """Counts over the listings of one source.

    :param counts: which objects are counted, as a text; what was kept of others begins anew.
    """

    def __init__(self, *, counts: str) -> None:
        self._rules = zlib.crc32(counts.encode("utf-8", "surrogatepass"))
        self._floor: dt.datetime | None = None
        self._counts = [0] * _PARTS
        self._next_floor: dt.datetime | None = None
        self._again = [0] * _PARTS
        self._next = [0] * _PARTS

    def dump(self) -> bytes:
        """Return what :meth:`load` reads: of the last complete listing."""
        floor = self._floor and self._floor.isoformat()
        return zlib.compress(json.dumps({"floor": floor, "counts": self._counts, "rules": self._rules}).encode())

    def load(self, kept: bytes) -> None:
        """Go on where another process ended."""
        known = json.loads(zlib.decompress(kept))
        if known["floor"] and known["rules"] == self._rules:
            self._floor, self._counts = dt.datetime.fromisoformat(known["floor"]), known["counts"]

    def begin(self, floor: dt.datetime | None) -> None:
        """Begin a listing.

        :param floor: the time from which objects are delivered; None when all are.
        """
        self._next_floor = floor
        self._again, self._next = [0] * _PARTS, [0] * _PARTS

    def offer(self, each: ListedObject) -> None:
        """Count an object that is older than the window."""
        part = zlib.crc32(key_order(each.key)) % _PARTS
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
