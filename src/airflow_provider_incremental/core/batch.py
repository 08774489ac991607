"""A batch: one slice of a source, as it is committed, listed, announced and handed to consumers."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.watermark import Cursor, WatermarkKey

__all__ = ["Batch", "BatchKind", "Claim", "NewBatch", "SeenBatch", "inlined"]

BatchKind = Literal["added", "removed", "baseline"]
"""``added`` and ``removed`` go to consumers; a ``baseline`` only remembers what was there before the start."""

FINGERPRINT_BYTES = 16


def _new_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A slice that was found and is about to be committed. Its id is made here, so that a repeated commit is known."""

    low: Cursor
    high: Cursor
    items: Sequence[Any] = ()
    count: int = 0
    kind: BatchKind = "added"
    fingerprints: Sequence[bytes] = ()
    id: str = field(default_factory=_new_id)

    def __post_init__(self) -> None:
        """Refuse fingerprints that could not be told apart once they stand in the log one after the other."""
        sizes = {len(mark) for mark in self.fingerprints} - {FINGERPRINT_BYTES}
        if sizes:
            msg = f"a fingerprint has {FINGERPRINT_BYTES} bytes; the source gave some of {sorted(sizes)}: hash the item"
            raise SourceError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A committed slice ``(low, high]``. ``seq`` numbers the batches of a watermark from 1, without gaps.

    ``items`` is None in a listing, where only the consumer that claims the batch needs them.
    """

    key: WatermarkKey
    id: str
    seq: int
    low: Cursor
    high: Cursor
    count: int
    kind: BatchKind = "added"
    items: list[Any] | None = None
    items_bytes: int = 0
    committed_at: dt.datetime | None = None
    announced_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class SeenBatch:
    """The fingerprints of one batch, for telling late items from those delivered before."""

    seq: int
    high: Cursor
    fingerprints: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A batch that one holder may process until the lease ends. ``attempt`` counts from 1."""

    batch: Batch
    consumer: str
    holder: str
    attempt: int
    lease_until: dt.datetime


def inlined(sizes: Iterable[int], inline_bytes: int) -> list[bool]:
    """Return which of the batches that are due come with their items, given how many bytes these take, oldest first.

    >>> inlined([3, 9, 4, 4, 4, 1], inline_bytes=4)
    [True, False, True, True, True, True]
    """
    room = 4 * inline_bytes  # twice what an event has room for: a consumer reads the rest from the log
    chosen = []
    for size in sizes:
        chosen.append(size <= min(inline_bytes, room))
        room -= size if chosen[-1] else 0
    return chosen
