"""All that a store has of one watermark, in pages: what travels when a watermark moves to another store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey

__all__ = [
    "CONSUMER_WEIGHT",
    "FIRST",
    "PAGE_BYTES",
    "PIECE_WEIGHT",
    "SECTIONS",
    "BatchWork",
    "KnownConsumer",
    "LoggedBatch",
    "Place",
    "Section",
    "Snapshot",
    "WorkState",
    "batch_weight",
    "is_staging",
    "staging",
    "work_weight",
]

Section = Literal["pieces", "batches", "consumers", "work"]
SECTIONS: tuple[Section, ...] = get_args(Section)
"""The order in which the pages have what belongs to a watermark."""

WorkState = Literal["claimed", "released", "acknowledged", "dead"]

PAGE_BYTES = 1_000_000
"""About what one page takes; a batch that is bigger has a page of its own."""

PIECE_WEIGHT, CONSUMER_WEIGHT = 100, 200
_STAGING = "airflow-incremental copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedBatch:
    """A batch of the log, with its items and its fingerprints."""

    batch: Batch
    fingerprints: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWork:
    """What one consumer did with one batch last. ``stamped_at`` is when the lease, or the time to wait, was given."""

    consumer: str
    seq: int
    state: WorkState
    holder: str
    attempt: int
    lease_until: dt.datetime
    stamped_at: dt.datetime
    error: str | None = None

    def held(self, now: dt.datetime) -> bool:
        """Whether a worker has the batch in its hands."""
        return self.state == "claimed" and self.lease_until > now


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownConsumer:
    """Who processes the batches. Up to ``start_seq`` they are not for it; what it has finished, its work says."""

    consumer: str
    start_seq: int
    first_seen_at: dt.datetime
    last_seen_at: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a page begins: behind a name (of a piece, or a consumer) and a sequence number of a section.

    :param number: of the page, from 0.
    """

    number: int = 0
    section: Section = "pieces"
    name: str = ""
    seq: int = 0


FIRST = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One page of all that a store has of a watermark. Whoever asks for page after page has everything in the end.

    :param store: the identity of the store that gives it.
    :param watermark: as it is; the same on every page, unless it moved meanwhile.
    :param announced_at: when its last announcement began.
    :param announced_seq: batches up to here were announced.
    :param number: of the page, from 0.
    :param next: where the next page begins; None on the last one.
    """

    store: str
    watermark: Watermark
    announced_at: dt.datetime | None = None
    announced_seq: int = 0
    number: int = 0
    pieces: Mapping[str, bytes] = field(default_factory=dict)
    batches: tuple[LoggedBatch, ...] = ()
    consumers: tuple[KnownConsumer, ...] = ()
    work: tuple[BatchWork, ...] = ()
    next: Place | None = None

    @property
    def weight(self) -> int:
        """About how many bytes the page takes."""
        return (
            sum(len(piece) + PIECE_WEIGHT for piece in self.pieces.values())
            + sum(batch_weight(each.batch, each.fingerprints) for each in self.batches)
            + CONSUMER_WEIGHT * len(self.consumers)
            + sum(work_weight(each.error) for each in self.work)
        )

    def require_sound(self) -> None:
        """Refuse a page that no store can have given: for :meth:`core.store.WatermarkStore.restore`.

        :raises ConflictError: when it has something twice, or a batch that is not one of this watermark.
        """
        for what, keys in (
            ("number of a batch", [each.batch.seq for each in self.batches]),
            ("id of a batch", [each.batch.id for each in self.batches]),
            ("consumer", [each.consumer for each in self.consumers]),
            ("work", [(each.consumer, each.seq) for each in self.work]),
        ):
            _require_different(what, keys)
        last = self.watermark.last_seq
        for each in self.batches:
            batch = each.batch
            whole = batch.committed_at is not None and batch.items is not None
            if batch.key != self.watermark.key or not whole or not 0 < batch.seq <= last:
                msg = f"batch {batch.id} is not one of {self.watermark.key}, numbered 1 to {last}, with all that it has"
                raise ConflictError(msg)


def batch_weight(batch: Batch, fingerprints: Sequence[bytes]) -> int:
    """Return about how many bytes of a page a batch takes."""
    return batch.items_bytes + 16 * len(fingerprints) + 300


def work_weight(error: str | None) -> int:
    """Return about how many bytes of a page it takes what a consumer did with a batch."""
    return 250 + len(error or "")


def staging(key: WatermarkKey) -> WatermarkKey:
    """Return under which name the pages of a watermark wait until the last one is there.

    >>> staging(WatermarkKey("orders", "eu")).namespace
    'eu'
    """
    return WatermarkKey(_STAGING, key.namespace, key.id)


def is_staging(key: WatermarkKey) -> bool:
    """Whether it is such a name."""
    return key.asset_name == _STAGING


def _require_different(what: str, keys: Iterable[Hashable]) -> None:
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise ConflictError(f"the page has the {what} {key!r} twice")
        seen.add(key)
