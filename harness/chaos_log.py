"""What the store holds at the end of a chaos run, read past the package: the batch log must be without a fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from airflow_provider_incremental.core.values import loads
from harness.chaos_dags.chaos_notes import name_of
from harness.chaos_stage import ASSETS, Stage

__all__ = [
    "EXPECTED_CONSUMERS",
    "conflicts",
    "consumer_counts",
    "dead_items",
    "known_consumers",
    "log_faults",
    "waiting",
    "watermarks",
    "where",
]

_LOG = """
    SELECT w.asset_name, b.seq, b.low, b.high, b.items, b.count FROM asset_watermark_batches b
    JOIN asset_watermarks w ON w.id = b.watermark_id WHERE b.kind = 'added' ORDER BY w.asset_name, b.seq
"""
_WATERMARKS = "SELECT asset_name, last_seq, cursor, conflicts, last_error FROM asset_watermarks"
_CLAIMS = """
    SELECT consumer, sum(attempt - 1), count(*) FILTER (WHERE state = 'dead'),
        count(*) FILTER (WHERE state NOT IN ('acknowledged', 'dead'))
    FROM asset_watermark_claims GROUP BY consumer
"""
_DEAD = """
    SELECT x.consumer, w.asset_name, b.items FROM asset_watermark_claims x
    JOIN asset_watermarks w ON w.id = x.watermark_id
    JOIN asset_watermark_batches b ON b.watermark_id = x.watermark_id AND b.seq = x.seq
    WHERE x.state = 'dead'
"""
_WAITING = """
    SELECT w.asset_name, c.consumer, b.seq, x.state, x.attempt, x.holder, x.lease_until, x.last_error, b.announced_at
    FROM asset_watermark_batches b
    JOIN asset_watermarks w ON w.id = b.watermark_id
    JOIN asset_watermark_consumers c ON c.watermark_id = b.watermark_id AND b.seq > c.start_seq
    LEFT JOIN asset_watermark_claims x
        ON x.watermark_id = b.watermark_id AND x.consumer = c.consumer AND x.seq = b.seq
    WHERE b.seq > c.done_seq AND coalesce(x.state, '') NOT IN ('acknowledged', 'dead')
    ORDER BY 1, 2, 3
"""


def log_faults(stage: Stage) -> list[str]:
    """Return what is wrong with the log: gaps, batches out of order, items in two batches, a watermark behind it."""
    faults: list[str] = []
    logs = stage.query(stage.store_url, _LOG)
    for asset, last_seq, cursor, _, _ in stage.query(stage.store_url, _WATERMARKS):
        log = [entry for entry in logs if entry[0] == asset]
        if [entry[1] for entry in log] != list(range(1, last_seq + 1)):
            faults.append(f"{asset}: the sequence numbers have gaps, or the watermark has another last one: {last_seq}")
        edges = [loads(edge) for entry in log for edge in entry[2:4] if edge is not None] + [loads(cursor or "null")]
        faults += [
            f"{asset}: the position went back from {earlier} to {later}"
            for earlier, later in pairwise(edges)
            if later < earlier
        ]
        counts = Counter(name_of(item) for entry in log for item in loads(entry[4]))
        faults += [f"{asset}: {item} is in {count} batches" for item, count in counts.items() if count > 1]
    return faults


def conflicts(stage: Stage) -> int:
    """Return how many polls were dropped because somebody else had committed."""
    return sum(row[3] for row in stage.query(stage.store_url, _WATERMARKS))


def consumer_counts(stage: Stage) -> Mapping[str, dict[str, int]]:
    """Return for each consumer how often a batch was taken again, and how many are set aside as dead."""
    rows = stage.query(stage.store_url, _CLAIMS)
    return {consumer: {"redeliveries": int(again), "dead": dead} for consumer, again, dead, _ in rows}


def dead_items(stage: Stage) -> dict[tuple[str, str], list[list[str]]]:
    """Return the names of the items of each batch that was set aside as dead, by consumer and asset."""
    found: dict[tuple[str, str], list[list[str]]] = {}
    for consumer, asset, items in stage.query(stage.store_url, _DEAD):
        found.setdefault((consumer, asset), []).append([name_of(item) for item in loads(items)])
    return found


def waiting(stage: Stage) -> list[tuple[Any, ...]]:
    """Return the batches that a consumer has not acknowledged, and how things are with them."""
    return stage.query(stage.store_url, _WAITING)


def where(stage: Stage, asset: str, item: str) -> str:
    """Return which batch of the log holds an item, for whoever looks for a loss."""
    for name, seq, low, high, items, _ in stage.query(stage.store_url, _LOG):
        if name == asset and item in {name_of(each) for each in loads(items)}:
            return f"in batch {seq} ({low}, {high}]"
    return "in no batch"


def watermarks(stage: Stage) -> list[tuple[Any, ...]]:
    """Return how things are with each watermark."""
    return stage.query(stage.store_url, _WATERMARKS)


def known_consumers(stage: Stage) -> int:
    """Return how many pairs of a consumer and a watermark the store knows."""
    rows = stage.query(stage.store_url, "SELECT count(*) FROM asset_watermark_consumers")
    return int(rows[0][0])


EXPECTED_CONSUMERS = 2 * len(ASSETS) + 1
