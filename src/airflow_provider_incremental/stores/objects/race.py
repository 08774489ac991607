"""The attempts of one change, and what became of each: found out by reading, since an answer may be lost."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from typing import Generic, TypeVar

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.objects.bucket import Stored
from airflow_provider_incremental.stores.objects.codec import parted, unpacked
from airflow_provider_incremental.stores.objects.document import TOKENS
from airflow_provider_incremental.stores.objects.faults import StorageFaultError
from airflow_provider_incremental.stores.objects.server_clock import ServerClock

__all__ = ["Proposal", "Race"]

T = TypeVar("T")

_LONGEST_PAUSE = dt.timedelta(hours=1)
"""A process that stood still for longer than this between two attempts does not go on: what it has written before the
document may be gone as garbage by then."""


@dataclass(frozen=True, slots=True)
class Proposal(Generic[T]):
    """What a change makes of a document.

    :param answer: of the operation, if this goes in.
    :param token: stands in the document if it went in.
    :param body: None when nothing changes.
    :param tokens: of the document that it was made from.
    """

    answer: T
    token: str
    body: bytes | None
    tokens: tuple[str, ...] = ()


class Race(Generic[T]):
    """What was attempted until now.

    An attempt can only go in while the document is the one that it was made from. So once another one was read, those
    that are not in it never will be.

    :param patience: seconds after which no other attempt is made.
    """

    def __init__(self, key: WatermarkKey, clock: ServerClock, patience: float) -> None:
        self._key = key
        self._patience = patience
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._deadline, self._began = self._loop.time() + patience, clock.now()
        self._made: list[Proposal[T]] = []
        self._fault: StorageFaultError | None = None

    @property
    def attempts(self) -> int:
        """How many there were."""
        return len(self._made)

    def note(self, proposal: Proposal[T], fault: StorageFaultError | None) -> None:
        """Note an attempt that was refused, or, with a fault, of which nobody knows."""
        self._made.append(proposal)
        self._fault = fault

    def winner(self, now: Stored | None) -> Proposal[T] | None:
        """Return the attempt that went in after all, as the document shows that was read after it.

        :raises StoreUnavailableError: when nobody can tell, or it has taken too long.
        """
        if not self._made:
            return None
        tokens = parted(unpacked(now.body))[1] if now else []
        for proposal in self._made:
            if proposal.token in tokens:
                return proposal
        last = self._made[-1].tokens[-1:]
        if len(tokens) == TOKENS and not set(tokens) & set(last):
            msg = f"watermark {self._key}: others wrote so much that nobody knows what became of this; load it again"
            raise StoreUnavailableError(msg)
        if self._loop.time() > self._deadline or self._clock.now() - self._began > _LONGEST_PAUSE:
            raise self._fault or StoreUnavailableError(
                f"watermark {self._key} could not be changed in {self._patience:g} s, since others were always first: "
                "too many write to it at once for object storage; keep it in a database"
            )
        return None
