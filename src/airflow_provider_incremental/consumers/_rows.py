"""Where the rows of a batch lie in their table: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from airflow_provider_incremental.consumers._rewatched import require_same_source
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_range import RowRange, range_between
from airflow_provider_incremental.sources.sql_recorded import LATENESS, SHAPE, Recorded, recorded_in
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["range_of"]


def range_of(session: StoreSession, batches: Sequence[Batch]) -> RowRange:
    """Return the range that has the rows of these batches, which are processed as one, and no others.

    :raises ConfigurationError: when there is none, saying why and what to do.
    """
    first, key = batches[0], batches[0].key
    require_same_source(session, first)
    watermark = session.run(session.store.load(key))
    kept = [each for name in (LATENESS, SHAPE) for each in session.run(session.store.remembered(key, name, "", 1))]
    recorded = recorded_in(kept)
    found = range_between(None if watermark is None else watermark.watches, first.low, batches[-1].high, recorded)
    _require_neighbours(batches)
    for batch in batches:
        _require_exact(batch, recorded)
    return found


def _require_neighbours(batches: Sequence[Batch]) -> None:
    if any(batch.low != before.high for before, batch in pairwise(batches)):
        msg = (
            f"batches {batches[0].seq} to {batches[-1].seq} of {batches[0].key} were put together and do not follow "
            "one another: a condition from the first to the last finds rows of others as well; use their items, or "
            "call consume() without max_items"
        )
        raise ConfigurationError(msg)


def _require_exact(batch: Batch, recorded: Recorded) -> None:
    """Refuse a batch whose bounds do not tell its rows. One without rows was made where they do."""
    why = None
    if batch.kind == "removed":
        why = "tells of rows that are gone, which no condition finds"
    elif batch.low == batch.high:
        why = "holds rows that came late, behind the watermark, and its bounds are where that was"
    elif batch.items and recorded.late:
        why = "is of a watermark with lateness: rows that came late lie within the bounds of others"
    elif batch.items and recorded.parted:
        why = "is of a watermark with deleted_column: rows that are marked lie within the same bounds"
    if why is not None:
        msg = (
            f"batch {batch.seq} of {batch.key} {why}; use its items, or, to read rows by their bounds, give a trigger "
            'with payload="range" and without lateness, removals and deleted_column'
        )
        raise ConfigurationError(msg)
