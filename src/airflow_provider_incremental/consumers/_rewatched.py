"""Whether a batch's bounds are still of what its watermark watches: the journal knows when that could change."""

from __future__ import annotations

import datetime as dt

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.journal import was_rewatched
from airflow_provider_incremental.core.upkeep import JournalEntry
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.wiring.sync import StoreSession

__all__ = ["require_same_source"]

_FIRST_LOOK = 100


def require_same_source(session: StoreSession, batch: Batch) -> None:
    """Refuse a batch that was found before its watermark was let watch another source.

    :raises ConfigurationError: naming who did that, and what to do.
    """
    entry = _rewatched_since(session, batch.key, batch.committed_at)
    if entry is not None:
        msg = (
            f"batch {batch.seq} of {batch.key} was found before {entry.at:%Y-%m-%d %H:%M:%S}, and its watermark may "
            f"watch another source since {entry.who} did so (`airflow-incremental journal`): its bounds may be of "
            "another cursor by now; read it by its items, or write its condition yourself with batch.low and batch.high"
        )
        raise ConfigurationError(msg)


def _rewatched_since(session: StoreSession, key: WatermarkKey, since: dt.datetime | None) -> JournalEntry | None:
    limit = _FIRST_LOOK
    while True:
        entries = session.run(session.store.journal(key, limit))
        later = [each for each in entries if since is None or each.at >= since]
        found = next((each for each in later if was_rewatched(each.operation, each.detail)), None)
        if found is not None or len(later) < limit:
            return found
        limit *= 10  # newest first, and all of these are later than the batch
