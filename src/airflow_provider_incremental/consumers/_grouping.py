"""Putting small batches together: what one turn of a consumer's loop gets."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.intake import Intake, Taken
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["Groups"]

_MOST = 100
"""Batches in a group: each has a lease of its own to be renewed."""


class Groups:
    """The batches of a loop, in groups of at most ``max_items``; without it each batch is a group.

    What the body gave back is not handed out again: in order the loop ends, else it goes on with the others.

    As a context it gives back what was taken and not handed out: the batch that was to begin the next group, a group
    that could not be put together to its end, and what the store gave a second time.
    """

    def __init__(self, intake: Intake, session: StoreSession, max_batches: int | None, max_items: int | None) -> None:
        self.intake = intake
        self._session = session
        self._left = max_batches
        self._max_items = max_items
        self._ahead: list[Taken] = []
        self._aside: list[Taken] = []
        self._returned: set[str] = set()
        self._error: StoreError | None = None

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give back what was taken in advance; nothing went wrong with it."""
        self._ahead += self._aside
        while self._ahead:
            self._return(self._ahead[0])

    def __iter__(self) -> Iterator[list[Taken]]:
        """Yield groups until nothing can be had, or as many batches as are wanted have come.

        :raises StoreError: why no more could be had, after what was taken before has been handed out.
        """
        while self._ahead or self._take():
            size = self._size()
            if self._lose():
                continue  # what is left is put together anew
            group, self._ahead = self._ahead[:size], self._ahead[size:]
            yield group
            self._returned |= {each.claim.batch.id for each in group if each.returned}
            if self._returned and self.intake.ordered:
                break
        if self._error is not None:
            raise self._error

    def _size(self) -> int:
        """Take as many batches as fit together, and return how many they are; one more may have been taken.

        What was tried before comes alone, and nothing is taken in advance of it: it may kill the worker, and whatever
        this holds then has had an attempt.
        """
        if self._max_items is None or _was_tried(self._ahead[0]):
            return 1
        size = 1
        while size < len(self._ahead) or self._take():
            if _was_tried(self._ahead[size]):
                self._leave(self._ahead[size])
                break
            if not self._fits(self._ahead[:size], self._ahead[size]):
                break
            size += 1
        return size

    def _leave(self, taken: Taken) -> None:
        """Give back what comes alone, to be claimed anew when its turn has come."""
        try:
            self._return(taken)
        except StoreError as error:
            self._error = error

    def _lose(self) -> bool:
        """Let go of what another worker took meanwhile, and in order of what comes after it; whether there was any."""
        lost = self._session.run(self.intake.lost(self._ahead))
        keys = {each.claim.batch.key for each in lost} if self.intake.ordered else set()
        held = [each for each in self._ahead if each not in lost]
        if self._left is not None:
            self._left += len(lost)
        self._ahead = held
        for each in [each for each in held if each.claim.batch.key in keys]:
            self._return(each)
        return bool(lost)

    def _return(self, taken: Taken) -> None:
        """Give back what was taken in advance; nothing went wrong with it."""
        self._session.run(self.intake.give_back(taken, None))
        self._ahead.remove(taken)
        if self._left is not None:
            self._left += 1

    def _take(self) -> bool:
        """Claim one more batch; whether there was one to be had."""
        if self._left == 0 or self._error is not None:
            return False
        try:
            taken = self._claim()
        except StoreError as error:
            self._error = error
            return False
        if taken is None:
            return False
        self._ahead.append(taken)
        if self._left is not None:
            self._left -= 1
        return True

    def _claim(self) -> Taken | None:
        """Claim a batch that the body did not give back; what it did is held, or the store would give it for ever."""
        while (taken := self._session.run(self.intake.claim())) is not None:
            if taken.claim.batch.id not in self._returned:
                return taken
            self._aside.append(taken)
        return None

    def _fits(self, group: list[Taken], following: Taken) -> bool:
        """Whether a batch may join: alike in what it is, and small enough."""
        first, last, new = group[0].claim, group[-1].claim, following.claim
        if not new.batch.items and new.batch.low != last.batch.high:
            return False  # of ranges that are only described, two neighbours are one range again, others are not
        if len(group) >= _MOST:
            return False
        size = sum(each.claim.batch.count for each in group) + new.batch.count
        return _kind(first) == _kind(new) and self._max_items is not None and size <= self._max_items


def _kind(claim: Claim) -> object:
    """What all batches of a group have in common."""
    batch = claim.batch
    return (batch.key, batch.kind, bool(batch.items))


def _was_tried(taken: Taken) -> bool:
    """Whether the batch failed before, or killed its worker, or was in the hands of one that died."""
    return taken.claim.attempt > 1
