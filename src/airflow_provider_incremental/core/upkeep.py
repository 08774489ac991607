"""What people do to a store by hand and look at there: consumers and their dead batches, and the journal of acts."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.watermark import WatermarkKey

__all__ = ["Act", "ConsumerStatus", "DeadBatch", "JournalEntry"]


@dataclass(frozen=True, slots=True)
class Act:
    """Who changes something by hand, and why: it goes into the journal together with the change."""

    who: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One change by hand. ``detail`` says in words what changed."""

    at: dt.datetime
    key: WatermarkKey
    operation: str
    detail: str
    who: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadBatch:
    """A batch that a consumer failed at too often: set aside until somebody replays it. Listed without items."""

    batch: Batch
    consumer: str
    attempts: int
    error: str | None
    since: dt.datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerStatus:
    """How far a consumer is on one watermark.

    ``start_seq`` is the last batch that is not for it; up to ``done_seq``, at least, it has finished everything.
    """

    key: WatermarkKey
    consumer: str
    start_seq: int
    done_seq: int
    pending: int
    dead: int
    first_seen_at: dt.datetime
    last_seen_at: dt.datetime
