"""What the upkeep commands show: consumers, dead batches and the journal, for people and for programs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from airflow_provider_incremental.cli.output import batch_json, iso, table, when
from airflow_provider_incremental.core.store import RETURNS_WITHIN
from airflow_provider_incremental.core.upkeep import ConsumerStatus, DeadBatch, JournalEntry

__all__ = ["consumer_json", "consumers_table", "dead_json", "dead_table", "entry_json", "journal_table"]


def consumers_table(consumers: Iterable[ConsumerStatus], *, of_one: bool = False) -> str:
    """Return one line a consumer.

    :param of_one: they are all of one watermark, which is named elsewhere.
    """
    heads = ("WATERMARK", "CONSUMER", "FINISHED UP TO", "WAITING", "DEAD", "LAST SEEN", "STATE")
    rows = (
        (each.key, each.consumer, each.done_seq, each.pending, each.dead, when(each.last_seen_at), _state(each))
        for each in consumers
    )
    return table(heads[1:], (row[1:] for row in rows)) if of_one else table(heads, rows)


def dead_table(batches: Iterable[DeadBatch], *, wide: bool) -> str:
    """Return one line a dead batch and consumer."""
    heads = ("WATERMARK", "BATCH", "CONSUMER", "ITEMS", "ATTEMPTS", "SINCE", "ERROR")
    rows = (
        (each.batch.key, each.batch.seq, each.consumer, each.batch.count, each.attempts, when(each.since), each.error)
        for each in batches
    )
    return table(heads, rows, wide=wide)


def journal_table(entries: Iterable[JournalEntry], *, wide: bool) -> str:
    """Return one line a change."""
    heads = ("WHEN", "WATERMARK", "OPERATION", "WHAT", "WHO", "WHY")
    rows = ((when(each.at), each.key, each.operation, each.detail, each.who, each.why) for each in entries)
    return table(heads, rows, wide=wide)


def consumer_json(status: ConsumerStatus) -> dict[str, Any]:
    """Return a consumer for programs."""
    return {
        "watermark": str(status.key),
        "consumer": status.consumer,
        "start_seq": status.start_seq,
        "done_seq": status.done_seq,
        "waiting": status.pending,
        "dead": status.dead,
        "first_seen_at": iso(status.first_seen_at),
        "last_seen_at": iso(status.last_seen_at),
    }


def dead_json(dead: DeadBatch) -> dict[str, Any]:
    """Return a dead batch for programs, without its items."""
    return {
        "watermark": str(dead.batch.key),
        "consumer": dead.consumer,
        "attempts": dead.attempts,
        "error": dead.error,
        "since": iso(dead.since),
        "batch": batch_json(dead.batch),
    }


def entry_json(entry: JournalEntry) -> dict[str, Any]:
    """Return a change for programs."""
    return {
        "at": iso(entry.at),
        "watermark": str(entry.key),
        "operation": entry.operation,
        "detail": entry.detail,
        "who": entry.who,
        "why": entry.why,
    }


def _state(status: ConsumerStatus) -> str:
    away = dt.datetime.now(dt.UTC) - status.last_seen_at
    if away.total_seconds() > RETURNS_WITHIN:
        return f"away for {away.days} days: nothing is announced for it"
    return "behind" if status.pending else "ok"
