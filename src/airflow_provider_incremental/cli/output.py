"""What actions show, as tables for people and as JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.cli.positions import written
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.upkeep import ConsumerStatus
from airflow_provider_incremental.core.values import encode
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey, WatermarkStatus

__all__ = [
    "Backlog",
    "as_json",
    "batch_json",
    "batches_table",
    "duration",
    "iso",
    "pairs",
    "table",
    "watermark_json",
    "watermark_pairs",
    "watermarks_table",
    "when",
]

_WIDEST = 60
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits on a watermark for its slowest consumer, and how many batches are dead for somebody.

    Both are None where nobody consumes.
    """

    waiting: int | None = None
    dead: int | None = None

    @classmethod
    def of(cls, key: WatermarkKey, consumers: Iterable[ConsumerStatus]) -> Backlog:
        """Sum up the consumers of a watermark."""
        here = [each for each in consumers if each.key == key]
        if not here:
            return cls()
        return cls(max(each.pending for each in here), sum(each.dead for each in here))

    @property
    def json(self) -> dict[str, int | None]:
        """The same for programs."""
        return {"waiting": self.waiting, "dead": self.dead}


def as_json(value: Any) -> str:
    """Return JSON for programs to read and people to look at."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, wide: bool = False) -> str:
    """Return columns under their heads, each as wide as its widest cell; long cells are cut unless it is ``wide``."""
    cells = [tuple(heads), *(tuple(_cell(value, wide=wide) for value in row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def pairs(facts: Iterable[tuple[str, object]]) -> str:
    """Return one fact a line; facts that are None are left out, nothing is cut."""
    known = [(name, _line(value)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in known)


def watermarks_table(
    watermarks: Iterable[Watermark], backlogs: Mapping[WatermarkKey, Backlog], *, wide: bool = False
) -> str:
    """Return one line a watermark."""
    heads = ("WATERMARK", "POSITION", "BATCHES", "WAITING", "DEAD", "MOVED", "LAST POLL", "STATE")
    rows = (
        (
            each.key,
            written(each.cursor),
            each.last_seq,
            backlogs[each.key].waiting,
            backlogs[each.key].dead,
            when(each.moved_at),
            when(each.status.last_poll_at),
            _state(each),
        )
        for each in watermarks
    )
    return table(heads, rows, wide=wide)


def watermark_pairs(watermark: Watermark) -> str:
    """Return everything that is known of one watermark."""
    status, watches = watermark.status, watermark.watches
    return pairs(
        [
            ("watermark", watermark.key),
            ("position", written(watermark.cursor)),
            ("version", watermark.version if watermark.started else "0 (no poll was committed yet)"),
            ("moved", when(watermark.moved_at)),
            ("batches", watermark.last_seq),
            ("watches", watches.source if watches else "(the next trigger decides)"),
            ("cursor", watches.cursor if watches else None),
            ("state", _state(watermark)),
            ("last poll", when(status.last_poll_at)),
            ("last error", status.last_error),
            ("last error at", _last_error_at(status)),
            ("failures in a row", status.failures),
            ("conflicts", status.conflicts),
            ("late and skipped", status.late_skipped),
            ("note", status.note),
        ]
    )


def batches_table(batches: Iterable[Batch]) -> str:
    """Return one line a batch."""
    heads = ("BATCH", "KIND", "ITEMS", "UP TO", "COMMITTED", "ANNOUNCED")
    rows = (
        (each.seq, each.kind, each.count, written(each.high), when(each.committed_at), when(each.announced_at))
        for each in batches
    )
    return table(heads, rows)


def watermark_json(watermark: Watermark) -> dict[str, Any]:
    """Return a watermark for programs; the position is tagged JSON, as ``set --json`` takes it."""
    status, watches = watermark.status, watermark.watches
    return {
        "watermark": str(watermark.key),
        "asset": watermark.key.asset_name,
        "namespace": watermark.key.namespace,
        "key": watermark.key.key,
        "position": encode(watermark.cursor),
        "version": watermark.version,
        "started": watermark.started,
        "batches": watermark.last_seq,
        "moved_at": iso(watermark.moved_at),
        "watches": {"source": watches.source, "cursor": watches.cursor} if watches else None,
        "status": {
            "last_poll_at": iso(status.last_poll_at),
            "next_poll_at": iso(status.next_poll_at),
            "stale": status.silence(dt.datetime.now(dt.UTC)) is not None,
            "last_error": status.last_error,
            "last_error_at": iso(status.last_error_at),
            "failures": status.failures,
            "conflicts": status.conflicts,
            "late_skipped": status.late_skipped,
            "note": status.note,
        },
    }


def batch_json(batch: Batch) -> dict[str, Any]:
    """Return a batch for programs, without its items."""
    return {
        "seq": batch.seq,
        "id": batch.id,
        "kind": batch.kind,
        "count": batch.count,
        "low": encode(batch.low),
        "high": encode(batch.high),
        "committed_at": iso(batch.committed_at),
        "announced_at": iso(batch.announced_at),
    }


def _last_error_at(status: WatermarkStatus) -> str | None:
    moment = when(status.last_error_at)
    return moment if moment is None or status.last_error else f"{moment} (it is over)"


def _state(watermark: Watermark) -> str:
    status = watermark.status
    silence = status.silence(dt.datetime.now(dt.UTC))
    if silence is not None:
        return (
            f"stale: not polled for {duration(silence.since)} (expected every {duration(silence.expected)}); "
            "is the triggerer up, a DAG of the asset unpaused, and the watcher attached?"
        ) + (f" Before that: failing, {status.last_error}" if status.failures else "")
    if status.failures:
        return f"failing ({status.failures} in a row): {status.last_error}"
    if status.last_poll_at is None and not watermark.started:
        return "never polled"
    return status.note or "ok"


def _cell(value: object, *, wide: bool) -> str:
    text = _line("-" if value is None else value)
    return text if wide or len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _line(value: object) -> str:
    """Keep to one line, and let no source's text steer a terminal."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(value))


def when(moment: dt.datetime | None) -> str | None:
    """Return an instant to the second, in UTC."""
    return None if moment is None else moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration(seconds: float) -> str:
    """Return a length of time as people write it, in its two greatest units.

    >>> [duration(each) for each in (0.25, 5, 140, 7260, 200000)]
    ['0.25s', '5s', '2m20s', '2h01m', '2d07h']
    """
    if seconds < _MINUTE:
        return f"{seconds:.3g}s"
    whole = int(seconds)
    for size, name, below, less in ((86400, "d", 3600, "h"), (3600, "h", _MINUTE, "m"), (_MINUTE, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{name}{whole % size // below:02d}{less}"
    return f"{whole}s"


def iso(moment: dt.datetime | None) -> str | None:
    """Return an instant for programs."""
    return None if moment is None else moment.isoformat()
