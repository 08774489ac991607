"""Objects that are ahead of their partition: written before its time came, while it was not listed.

A writer's clock, or its time zone, may be ahead by hours. When the partition is listed at last, such an object may lie
behind the lateness window, though nobody has seen it. So with each move of the watermark it is noted until when
partitions were listed; what then lies in one that begins later is new, however old it is. Two things keep it from being
delivered twice: a listing of the whole prefix has shown it, if it is not above where that has come to; and fingerprints
of what was delivered since the watermark moved are known, as long as it has not moved again.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import NamedTuple

from airflow_provider_incremental.core.source import NOTHING, Memory, Pieces
from airflow_provider_incremental.sources.s3_pages import Position
from airflow_provider_incremental.sources.s3_partitions import Partitions

__all__ = ["Ahead", "Unlisted"]

_PIECE = "partitions/listed"
_MOST = 2000  # after months in which nobody polled, they would take the event loop too long


class Unlisted(NamedTuple):
    """Which objects behind the watermark are new: those in some partitions, above a position.

    :param names: of the partitions, and :param length: of each name: dates are as wide as one another.
    """

    names: frozenset[str] = frozenset()
    length: int = 0
    above: Position | None = None

    def holds(self, position: Position) -> bool:
        """Whether an object is one of them."""
        return position[1][: self.length] in self.names and (self.above is None or position > self.above)


class Ahead:
    """Remembers until when the partitions of a prefix were listed.

    :param partitions: those of the prefix; None: it has none, and nothing is remembered.
    :param lateness: seconds; 0: nothing behind the watermark is delivered.
    """

    def __init__(self, *, partitions: Partitions | None, lateness: float) -> None:
        self._partitions = partitions if lateness > 0 else None
        self._moved_to: Position | None = None
        self._listed_at: dt.datetime | None = None
        self._whole: Position | None = None

    async def open(self, memory: Memory, low: Position | None) -> None:
        """Take up what was noted when the watermark moved to where it is."""
        if self._partitions is not None and low is not None and self._moved_to != low:
            self._moved_to = self._listed_at = self._whole = None
            for _, piece in await memory.read(prefix=_PIECE, limit=1):
                moved_to, listed_at, whole = json.loads(piece)
                self._moved_to = _position(*moved_to)
                self._listed_at = dt.datetime.fromisoformat(listed_at)
                self._whole = _position(*whole) if whole else None

    def unlisted(self, low: Position | None, now: dt.datetime) -> Unlisted:
        """Return what is new in partitions that were not listed before.

        :param now: until when they are listed now.
        """
        if self._partitions is None or self._listed_at is None or low is None or self._moved_to != low:
            return Unlisted()
        if self._partitions.count(self._listed_at, now) > _MOST:
            return Unlisted()
        before = self._partitions.between(self._listed_at, self._listed_at)
        names = frozenset(self._partitions.between(self._listed_at, now)) - frozenset(before)
        return Unlisted(names, len(before[0]), self._whole)

    def commit(self, low: Position | None, high: Position | None, *, listed_at: dt.datetime, whole: bool) -> Pieces:
        """Return what to write when the watermark moves: in their order, all of those objects were delivered by then.

        :param listed_at: until when partitions were listed.
        :param whole: whether all of them were, and not only those of the window and above.
        """
        if self._partitions is None or high is None or high == low:
            return NOTHING
        # Another writer may move it there in this one's place, and have listed until another time: read that again.
        self._moved_to = None
        listed_whole = high if whole else self._whole
        kept = [_json(high), listed_at.isoformat(), _json(listed_whole) if listed_whole else None]
        return {_PIECE: json.dumps(kept).encode()}


def _json(position: Position) -> tuple[str, str]:
    return position[0].isoformat(), position[1]


def _position(moment: str, key: str) -> Position:
    return dt.datetime.fromisoformat(moment), key
