"""Documents and pages as bytes: JSON by the one codec of values, compressed, the same for the same content."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import Batch, BatchKind
from airflow_provider_incremental.core.errors import StoreError, UnsupportedValueError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.upkeep import JournalEntry
from airflow_provider_incremental.core.watermark import Cursor, Watermark, WatermarkKey
from airflow_provider_incremental.stores import _changes
from airflow_provider_incremental.stores._memory_state import Consumer, Record, Work
from airflow_provider_incremental.stores.api.forms import form_of
from airflow_provider_incremental.stores.objects.document import Document, Located, MemoryPlace, Page, located

__all__ = [
    "FORMAT",
    "Settled",
    "joined",
    "packed",
    "parted",
    "read_document",
    "read_entries",
    "read_page",
    "shown_cursor",
    "unpacked",
    "write_entries",
    "write_page",
    "written_document",
]

FORMAT = 1
"""Of documents; another number was written by a release that keeps them in another way."""

_STATE = ',"state":'
_UPGRADE = "upgrade airflow-provider-incremental on this machine to the newest release that uses this store"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_STATES = {"c": "claimed", "r": "released", "a": "acknowledged", "d": "dead"}
_KINDS: dict[str, BatchKind] = {"a": "added", "r": "removed", "b": "baseline"}
_LETTERS = {name: letter for letter, name in _STATES.items()}
_KIND_LETTERS = {name: letter for letter, name in _KINDS.items()}
_LONGEST_SHOWN = 200
_BROKEN = (KeyError, IndexError, TypeError, ValueError, ArithmeticError, RecursionError, EOFError, OSError, zlib.error)

ReadCursor = Callable[[Any], Cursor]
Settled = tuple[Located, dict[str, tuple[dt.datetime, Work]]]
"""A batch that nobody waits for: what each consumer did with it, and since when that consumer is known."""


def packed(text: str) -> bytes:
    """Return text as an object has it."""
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def unpacked(body: bytes) -> str:
    """Return the text of an object."""
    return gzip.decompress(body).decode()


def written_document(document: Document) -> str:
    """Return the text of a document but for its tokens: the same for the same content."""
    return _dumps(_state(document))


def _state(document: Document) -> dict[str, Any]:
    record = document.record
    return {
        "key": [document.key.asset_name, document.key.namespace, document.key.key],
        "generation": document.generation,
        "record": _write_record(record) if record else None,
        "pages": [[page.name, page.first, page.last, page.count, _micros(page.oldest)] for page in document.pages],
        "memory": [document.memory.name, document.memory.index_size] if document.memory else None,
        "trash": document.trash,
        "left": {name: _micros(at) for name, at in document.left.items()},
        "journal": [document.entries_before, write_entries(document.entries)],
        "swept": _micros(document.swept_at),
        "draft": [document.draft_pages, _state(document.draft)] if document.draft else None,
    }


def joined(state: str, tokens: list[str]) -> str:
    """Return the text of an object: the state, and the tokens of the writes that led to it."""
    return f'{{"format":{FORMAT},"tokens":{_dumps(tokens)}{_STATE}{state}}}'


def parted(text: str) -> tuple[str, list[str]]:
    """Return what :func:`joined` joined.

    :raises StoreError: when another release wrote it in another form.
    """
    head, _, state = text.partition(_STATE)
    try:
        found = json.loads(head + "}")
        if found["format"] == FORMAT:
            return state[:-1], found["tokens"]
        why = f"its format is {found['format']!r}"
    except _BROKEN as error:
        why = describe(error)
    msg = f"an object of the store cannot be read here: {why}; {_UPGRADE}"
    raise StoreError(msg)


def read_document(text: str, *, lenient: bool = False) -> Document:
    """Return the document of an object's text.

    :param lenient: for a list: a cursor that this release cannot read is shown, and stands in nobody's way.
    :raises StoreError: when it cannot be read.
    """
    state, tokens = parted(text)
    read_cursor = shown_cursor if lenient else values.decode
    try:
        return _read_state(json.loads(state), tokens, read_cursor)
    except (UnsupportedValueError, *_BROKEN) as error:
        msg = f"an object of the store cannot be read here: {describe(error)}. It is kept as it is; {_UPGRADE}"
        raise StoreError(msg) from error


def shown_cursor(raw: Any) -> Cursor:
    """Return a cursor for a list; one that cannot be read is shown as what it is.

    >>> sorted(shown_cursor({"$vector": "1,2"}))
    ['because', 'unreadable']
    """
    try:
        return values.decode(raw)
    except (UnsupportedValueError, ValueError, RecursionError) as error:
        return {"unreadable": _dumps(raw)[:_LONGEST_SHOWN], "because": describe(error)}


def write_page(rows: list[Settled]) -> str:
    """Return the text of a page: batches, and by whom each consumer finished them."""
    return _dumps(
        [
            [_write_batch(each), {name: [_micros(known), *_write_work(work)] for name, (known, work) in by.items()}]
            for each, by in rows
        ]
    )


def read_page(key: WatermarkKey, text: str, *, lenient: bool = False) -> list[Settled]:
    """Return what :func:`write_page` wrote."""
    read_cursor = shown_cursor if lenient else values.decode
    return [
        (
            _read_batch(row, key, read_cursor),
            {name: (_some(known), _read_work(work)) for name, (known, *work) in by.items()},
        )
        for row, by in json.loads(text)
    ]


def write_entries(entries: list[JournalEntry]) -> list[list[Any]]:
    """Return entries of the journal of one watermark as JSON."""
    return [[_micros(each.at), each.operation, each.detail, each.who, each.why] for each in entries]


def read_entries(key: WatermarkKey, rows: list[list[Any]]) -> list[JournalEntry]:
    """Return what :func:`write_entries` wrote."""
    return [
        JournalEntry(at=_some(at), key=key, operation=operation, detail=detail, who=who, why=why)
        for at, operation, detail, who, why in rows
    ]


def _read_state(state: dict[str, Any], tokens: list[str], read_cursor: ReadCursor) -> Document:
    key = WatermarkKey(*state["key"])
    before, entries = state["journal"]
    draft_pages, draft = state["draft"] or (0, None)
    return Document(
        key=key,
        generation=state["generation"],
        record=_read_record(state["record"], key, read_cursor) if state["record"] else None,
        pages=[Page(name, first, last, count, _some(oldest)) for name, first, last, count, oldest in state["pages"]],
        memory=MemoryPlace(*state["memory"]) if state["memory"] else None,
        trash=state["trash"],
        left={name: _some(at) for name, at in state["left"].items()},
        entries=read_entries(key, entries),
        entries_before=before,
        swept_at=_instant(state["swept"]),
        draft=_read_state(draft, [], read_cursor) if draft else None,
        draft_pages=draft_pages,
        tokens=tokens,
    )


def _write_record(record: Record) -> dict[str, Any]:
    watermark = form_of(Watermark).encode(record.watermark)
    del watermark["key"]
    return {
        "watermark": watermark,
        "log": [_write_batch(located(each)) for each in record.log.values()],
        "consumers": {
            name: [
                known.start_seq,
                _micros(known.first_seen_at),
                _micros(known.seen_at),
                [[seq, *_write_work(known.work[seq])] for seq in sorted(known.work)],
            ]
            for name, known in record.consumers.items()
        },
        "announced": [_micros(record.announced_at), record.announced_seq],
    }


def _read_record(state: dict[str, Any], key: WatermarkKey, read_cursor: ReadCursor) -> Record:
    raw = dict(state["watermark"])
    cursor = read_cursor(raw.pop("cursor", None))
    name = form_of(WatermarkKey).encode(key)
    watermark: Watermark = form_of(Watermark).decode(raw | {"cursor": values.encode(cursor), "key": name}, "watermark")
    log = [_read_batch(row, key, read_cursor) for row in state["log"]]
    announced_at, announced_seq = state["announced"]
    record = Record(watermark, {each.batch.seq: each for each in log})
    record.announced_at, record.announced_seq = _instant(announced_at), announced_seq
    for name, (start, first, seen, work) in state["consumers"].items():
        done = {seq: _read_work(rest) for seq, *rest in work}
        record.consumers[name] = Consumer(start, _some(seen), _some(first), done)
    return record


def _write_batch(each: Located) -> list[Any]:
    batch = each.batch
    return [
        batch.seq,
        batch.id,
        _KIND_LETTERS[batch.kind],
        batch.count,
        values.encode(batch.low),
        values.encode(batch.high),
        _micros(batch.committed_at),
        _micros(batch.announced_at),
        each.segment,
        each.offset,
        batch.items_bytes,
        each.marks,
    ]


def _read_batch(row: list[Any], key: WatermarkKey, read_cursor: ReadCursor) -> Located:
    seq, batch_id, kind, count, low, high, committed, announced, segment, offset, items_bytes, marks = row
    batch = Batch(
        key=key,
        id=batch_id,
        seq=seq,
        low=read_cursor(low),
        high=read_cursor(high),
        count=count,
        kind=_KINDS[kind],
        items_bytes=items_bytes,
        committed_at=_instant(committed),
        announced_at=_instant(announced),
    )
    return Located(batch, "null", (), segment, offset, marks)


def _write_work(work: Work) -> list[Any]:
    if work.state == "acknowledged":
        return ["a", _changes.shortened(work.holder), work.attempt]
    return [
        _LETTERS[work.state],
        work.holder,
        work.attempt,
        _micros(work.lease_until),
        _micros(work.stamped_at),
        work.error,
    ]


def _read_work(row: list[Any]) -> Work:
    letter, holder, attempt, *rest = row
    lease, stamped, error = rest or (0, 0, None)
    state: Any = _STATES[letter]
    return Work(state, holder, attempt, _some(lease), _some(stamped), error)


def _micros(instant: dt.datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def _instant(micros: int | None) -> dt.datetime | None:
    return None if micros is None else _some(micros)


def _some(micros: int) -> dt.datetime:
    return _EPOCH + micros * _MICROSECOND


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
