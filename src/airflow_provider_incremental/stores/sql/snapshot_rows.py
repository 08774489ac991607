"""The rows of a watermark that comes from another store."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.snapshot import BatchWork, KnownConsumer, Snapshot, staging
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.codec import EncodedBatch, cursor_text, text_or_none
from airflow_provider_incremental.stores.sql.statements import asset_hash

__all__ = ["batch_row", "consumer_row", "staging_row", "watermark_row", "work_row"]


def watermark_row(page: Snapshot, now: dt.datetime) -> dict[str, Any]:
    """Return the row of the watermark itself."""
    watermark, status = page.watermark, page.watermark.status
    watches = watermark.watches
    return _named(watermark.key, watermark.created_at or now) | {
        "cursor": cursor_text(watermark.cursor),
        "version": watermark.version,
        "last_seq": watermark.last_seq,
        "reread_after_seq": watermark.reread_after_seq,
        "watches_source": text_or_none(watches.source if watches else None),
        "watches_cursor": text_or_none(watches.cursor if watches else None),
        "moved_at": watermark.moved_at,
        "last_poll_at": status.last_poll_at,
        "next_poll_at": status.next_poll_at,
        "last_error": text_or_none(status.last_error),
        "last_error_at": status.last_error_at,
        "failures": status.failures,
        "conflicts": status.conflicts,
        "late_skipped": status.late_skipped,
        "note": text_or_none(status.note),
        "announced_at": page.announced_at,
        "announced_seq": page.announced_seq,
    }


def staging_row(page: Snapshot, now: dt.datetime) -> dict[str, Any]:
    """Return the row under which the pages wait; its version counts them."""
    counts = ("version", "last_seq", "reread_after_seq", "failures", "conflicts", "late_skipped", "announced_seq")
    note = f"a part of {page.watermark.key}, which comes from another store"
    return _named(staging(page.watermark.key), now) | dict.fromkeys(counts, 0) | {"note": note}


def batch_row(watermark_id: str, batch: Batch, row: EncodedBatch, *, as_hex: bool) -> dict[str, Any]:
    """Return the row of a batch."""
    return {
        "watermark_id": watermark_id,
        "seq": batch.seq,
        "id": row.id,
        "kind": row.kind,
        "low": row.low,
        "high": row.high,
        "count": row.count,
        "items": row.items,
        "items_bytes": len(row.items),
        "marks": row.fingerprints.hex() if as_hex else row.fingerprints,
        "committed_at": batch.committed_at,
        "announced_at": batch.announced_at,
    }


def consumer_row(watermark_id: str, known: KnownConsumer) -> dict[str, Any]:
    """Return the row of a consumer; what it has finished is looked up when everything is there."""
    return {
        "watermark_id": watermark_id,
        "consumer": known.consumer,
        "start_seq": known.start_seq,
        "done_seq": known.start_seq,
        "first_seen_at": known.first_seen_at,
        "last_seen_at": known.last_seen_at,
    }


def work_row(watermark_id: str, work: BatchWork) -> dict[str, Any]:
    """Return the row of what a consumer did with a batch."""
    return {
        "watermark_id": watermark_id,
        "consumer": work.consumer,
        "seq": work.seq,
        "state": work.state,
        "holder": work.holder,
        "attempt": work.attempt,
        "claimed_at": work.stamped_at,
        "lease_until": work.lease_until,
        "acknowledged_at": work.stamped_at if work.state == "acknowledged" else None,
        "last_error": text_or_none(work.error),
    }


def _named(key: WatermarkKey, created_at: dt.datetime) -> dict[str, Any]:
    return {
        "id": key.id,
        "asset_name": key.asset_name,
        "asset_hash": asset_hash(key.asset_name),
        "namespace": key.namespace,
        "key": key.key,
        "created_at": created_at,
    }
