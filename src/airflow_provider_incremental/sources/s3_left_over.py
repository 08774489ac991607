"""What a complete listing holds for one poll and for the next ones, as far as it was kept."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from airflow_provider_incremental.sources.s3_pages import ListedObject, Position

__all__ = ["LeftOver"]

_LASTS = 30.0


@dataclass(slots=True, kw_only=True)
class LeftOver:
    """Objects to deliver, and keys to say of that they are gone, each in its order.

    :param objects: fields of objects as plain tuples.
    :param cut: whether the listing holds more to deliver than was kept of it.
    :param newest: the position of the last object under the bound, delivered or not.
    :param missing: known keys that the listing does not have.
    :param missing_cut: whether more of them are missing.
    :param asked_at: by the server's clock, until when partitions were listed; ``whole``: all of the prefix was.
    :param late: how many objects appeared too late, until somebody says so.
    """

    objects: deque[tuple[object, ...]]
    cut: bool
    newest: Position | None
    note: str | None
    late: int
    listed_at: float
    asked_at: dt.datetime
    whole: bool
    missing: deque[str] = field(default_factory=deque)
    missing_cut: bool = False
    position: Position | None = None
    delivered: frozenset[bytes] = frozenset()
    token: str = ""

    @property
    def rest(self) -> bool:
        """Whether something of it is left."""
        return bool(self.objects or self.missing)

    @property
    def more(self) -> bool:
        """Whether there is more than what was taken, here or in the bucket."""
        return self.rest or self.cut or self.missing_cut

    def is_fresh(self, monotonic: float) -> bool:
        """Whether it is not too old to be taken for what is there."""
        return monotonic - self.listed_at <= _LASTS

    def take(
        self, limit: int, mark: Callable[[ListedObject], bytes], seen: AbstractSet[bytes]
    ) -> dict[bytes, ListedObject]:
        """Take the next objects that were not seen, by their marks."""
        taken: dict[bytes, ListedObject] = {}
        while self.objects and len(taken) < limit:
            each = ListedObject._make(self.objects.popleft())
            name = mark(each)
            if name not in seen:
                taken[name] = each
        return taken

    def take_missing(self, limit: int) -> list[str]:
        """Take the next keys that are gone."""
        return [self.missing.popleft() for _ in range(min(limit, len(self.missing)))]

    def take_late(self) -> int:
        """Return the number of late objects, once."""
        late, self.late = self.late, 0
        return late
