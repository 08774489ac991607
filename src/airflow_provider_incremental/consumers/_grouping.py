"""Putting small batches together: what one turn of a consumer's loop gets."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.intake import Intake, Taken
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["Groups"]

_MOST = 100
"""Batches in a group: each has a lease of its own to be renewed."""


class Groups:
    """The batches of a loop, in groups of at most ``max_items``; without it each batch is a group.

    As a context it gives back the batch that was taken for the next group, when there is no next group.
    """

    def __init__(self, intake: Intake, session: StoreSession, max_batches: int | None, max_items: int | None) -> None:
        self.intake = intake
        self._session = session
        self._left = max_batches
        self._max_items = max_items
        self._next: Taken | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what was taken in advance; nothing went wrong with it."""
        ahead, self._next = self._next, None
        if ahead is not None:
            self._session.run(self.intake.give_back(ahead, None))

    def __iter__(self) -> Iterator[list[Taken]]:
        """Yield groups until nothing can be had, or as many batches as are wanted have come."""
        while (first := self._take()) is not None:
            group = [first]
            while self._max_items is not None and (following := self._take()) is not None:
                if not self._fits(group, following):
                    self._next = following
                    break
                group.append(following)
            yield group

    def _take(self) -> Taken | None:
        ahead, self._next = self._next, None
        if ahead is not None:
            return ahead
        if self._left == 0:
            return None
        taken = self._session.run(self.intake.claim())
        if taken is not None and self._left is not None:
            self._left -= 1
        return taken

    def _fits(self, group: list[Taken], following: Taken) -> bool:
        """Whether a batch may join: alike in what it is, small enough, and neither side has failed before."""
        first, last, new = group[0].claim, group[-1].claim, following.claim
        if not new.batch.items and new.batch.low != last.batch.high:
            return False  # of ranges that are only described, two neighbours are one range again, others are not
        if len(group) >= _MOST:
            return False
        size = sum(each.claim.batch.count for each in group) + new.batch.count
        return _kind(first) == _kind(new) and self._max_items is not None and size <= self._max_items


def _kind(claim: Claim) -> object:
    """What all batches of a group have in common; one that failed before has nothing in common with any."""
    batch = claim.batch
    return object() if claim.attempt > 1 else (batch.key, batch.kind, bool(batch.items))
