"""Between rows and the domain: cursors and items as JSON text, fingerprints as bytes, big ones off the event loop."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES, Batch, NewBatch, SeenBatch
from airflow_provider_incremental.core.watermark import (
    Cursor,
    Watches,
    Watermark,
    WatermarkKey,
    WatermarkStatus,
)
from airflow_provider_incremental.stores.sql.readable import listed_cursor, listed_items, require_readable

__all__ = [
    "EncodedBatch",
    "batch_from",
    "batches_from",
    "cursor_text",
    "encoded",
    "key_from",
    "listed_watermark",
    "seen_from",
    "split_marks",
    "text_or_none",
    "watches_from",
    "watermark_from",
]

T = TypeVar("T")

_BIG_TEXT = 100_000
"""Characters of JSON that take about a millisecond: more is for another thread."""
_BIG_WORK = 20_000
"""The same for values that are not text yet, as :func:`_work` counts them."""
_CHARACTERS_A_VALUE = 20
_SCALARS = frozenset({int, float, bool, type(None), Decimal, UUID, dt.datetime, dt.date, dt.time, dt.timedelta})
_DECODER = json.JSONDecoder()
_BIG_FINGERPRINTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedBatch:
    """A new batch as its row has it, but for what only the commit decides."""

    id: str
    kind: str
    low: str | None
    high: str | None
    count: int
    items: str
    fingerprints: bytes


def cursor_text(cursor: Cursor) -> str | None:
    """Return what the column has: NULL for the very start."""
    return None if cursor is None else values.dumps(cursor)


def text_or_none(text: str | None) -> str | None:
    """Return free text as every database takes it: a NUL or half a character would make it refuse the whole row."""
    return text and text.replace("\x00", "\\0").encode("utf-8", "replace").decode("utf-8")


async def encoded(batches: Sequence[NewBatch]) -> list[EncodedBatch]:
    """Return batches as rows, without holding up the event loop when they are big."""
    left = _BIG_WORK
    for batch in batches:
        left -= _work(batch.items, left) + len(batch.fingerprints)
        if left < 0:
            return await asyncio.to_thread(_encode, batches, _items_text)
    return _encode(batches, values.dumps)


async def batches_from(
    rows: Sequence[Any], key_of: Mapping[str, WatermarkKey], payloads: Sequence[str | None] | None = None
) -> list[Batch]:
    """Return the batches of rows with the columns of :data:`statements.batch_columns`, for a list.

    Values that this release cannot read hide no other batch: see :mod:`readable`.

    :param key_of: the name of every watermark's id that occurs.
    :param payloads: the items of each row as text, where they are wanted; by default the column ``payload``, if any.
    """
    texts = payloads or [getattr(row, "payload", None) for row in rows]

    big = sum(len(text or "") for text in texts) > _BIG_TEXT
    loads = _text_items if big else values.loads

    def read() -> list[Batch]:
        return [
            _batch(row, key_of[row.watermark_id], listed_cursor, listed_items(loads, text))
            for row, text in zip(rows, texts, strict=True)
        ]

    return await _run(read, big=big)


async def batch_from(row: Any, key: WatermarkKey, payload: str) -> Batch:
    """Return the batch of a row with its items, for whoever processes it.

    :raises UnreadableError: when this release cannot read one of its values.
    """
    where = f"of batch {row.seq} of watermark {key} (asset_watermark_batches.id = {row.id})"
    big = len(payload) > _BIG_TEXT
    loads = _text_items if big else values.loads

    def read() -> Batch:
        items = require_readable(loads, payload, f"an item {where}")
        return _batch(row, key, lambda text: _cursor(text, f"a cursor {where}"), items)

    return await _run(read, big=big)


def key_from(row: Any) -> WatermarkKey:
    """Return the name of the watermark that a row is about."""
    return WatermarkKey(row.asset_name, row.namespace, row.key)


async def seen_from(rows: Sequence[Any], key: WatermarkKey) -> list[SeenBatch]:
    """Return the fingerprints of rows with ``seq``, ``high`` and ``fingerprints``.

    :raises UnreadableError: when this release cannot read where a batch ends: its items could come a second time.
    """
    size = sum(len(row.fingerprints) for row in rows)

    def read() -> list[SeenBatch]:
        return [
            SeenBatch(
                row.seq,
                _cursor(row.high, f"the cursor of batch {row.seq} of watermark {key} in asset_watermark_batches"),
                split_marks(row.fingerprints),
            )
            for row in rows
        ]

    return await _run(read, big=size > _BIG_FINGERPRINTS)


def watermark_from(row: Any, key: WatermarkKey) -> Watermark:
    """Return the watermark of a row with the columns of :data:`statements.watermark_columns`, for whoever moves it.

    :raises UnreadableError: when this release cannot read its cursor.
    """
    where = f"the cursor of watermark {key} (asset_watermarks.id = {row.id})"
    return _watermark(row, key, _cursor(row.cursor, where))


def listed_watermark(row: Any, key: WatermarkKey) -> Watermark:
    """Return the same for a list: a cursor that this release cannot read hides no other watermark."""
    return _watermark(row, key, listed_cursor(row.cursor))


def _cursor(text: str | None, what: str) -> Cursor:
    return None if text is None else require_readable(values.loads, text, what)


def _watermark(row: Any, key: WatermarkKey, cursor: Cursor) -> Watermark:
    return Watermark(
        key=key,
        cursor=cursor,
        version=row.version,
        last_seq=row.last_seq,
        watches=watches_from(row.watches_source, row.watches_cursor),
        reread_after_seq=row.reread_after_seq,
        created_at=row.created_at,
        moved_at=row.moved_at,
        status=WatermarkStatus(
            last_poll_at=row.last_poll_at,
            last_error=row.last_error,
            last_error_at=row.last_error_at,
            failures=row.failures,
            conflicts=row.conflicts,
            late_skipped=row.late_skipped,
            next_poll_at=row.next_poll_at,
            note=row.note,
        ),
    )


def watches_from(source: str | None, cursor: str | None) -> Watches | None:
    """Return what a watermark watches, when that is known."""
    return None if source is None or cursor is None else Watches(source, cursor)


async def _run(work: Callable[[], T], *, big: bool) -> T:
    return await asyncio.to_thread(work) if big else work()


def _encode(batches: Sequence[NewBatch], dumps: Callable[[list[Any]], str]) -> list[EncodedBatch]:
    return [
        EncodedBatch(
            id=batch.id,
            kind=batch.kind,
            low=cursor_text(batch.low),
            high=cursor_text(batch.high),
            count=batch.count,
            items=dumps(list(batch.items)),
            fingerprints=b"".join(batch.fingerprints),
        )
        for batch in batches
    ]


def _batch(row: Any, key: WatermarkKey, cursor_of: Callable[[str | None], Cursor], items: list[Any] | None) -> Batch:
    return Batch(
        key=key,
        id=row.id,
        seq=row.seq,
        low=cursor_of(row.low),
        high=cursor_of(row.high),
        count=row.size,
        kind=row.kind,
        items=items,
        items_bytes=row.items_bytes,
        committed_at=row.committed_at,
        announced_at=row.announced_at,
    )


def _items_text(items: list[Any]) -> str:
    """Return the JSON of a big list, made item by item: no single call keeps Python's lock for long."""
    return f"[{','.join(map(values.dumps, items))}]"


def _text_items(text: str) -> list[Any]:
    """Return the list whose JSON :func:`_items_text` made, read item by item for the same reason."""
    items: list[Any] = []
    at = 1
    while at < len(text) - 1:
        form, at = _DECODER.raw_decode(text, at)
        items.append(values.decode(form))
        at += 1
    return items


def split_marks(marks: bytes) -> tuple[bytes, ...]:
    """Return the fingerprints that stand one after the other."""
    return tuple(marks[at : at + FINGERPRINT_BYTES] for at in range(0, len(marks), FINGERPRINT_BYTES))


def _work(value: Any, most: int) -> int:
    """Count values and characters, and stop soon after ``most``: finding out that a list is big must be cheap."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return 1 + len(value) // _CHARACTERS_A_VALUE
    if not isinstance(value, (dict, list, tuple)):
        return 1
    done = 1
    for each in value.values() if isinstance(value, dict) else value:
        kind = type(each)
        if kind in _SCALARS:
            done += 1
        elif kind is str:
            done += 1 + len(each) // _CHARACTERS_A_VALUE
        else:
            done += _work(each, most - done)
        if done > most:
            break
    return done
