"""An announcement: what one event tells Airflow of the batches that wait. Strict JSON of a few KB, schema 1.

Tasks receive every event of their run in full, so the payload names batches and carries items only while they are
small; a consumer reads the rest from the batch log. The payload is public API: fields are added, never changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.values import Json, encode
from airflow_provider_incremental.core.watermark import Cursor, WatermarkKey

__all__ = ["INLINE_BYTES", "SCHEMA", "Announcement"]

SCHEMA = 1
INLINE_BYTES = 4096
"""Items of one batch travel in the event when they take at most so many bytes."""

_MOST_BYTES = 8192
_LONGEST_CURSOR = 512


@dataclass(frozen=True, slots=True)
class Announcement:
    """The batches that one event names, oldest first, and the identity of the store that holds them."""

    key: WatermarkKey
    store: str
    batches: Sequence[Batch]

    @property
    def seqs(self) -> frozenset[int]:
        """The sequence numbers of all its batches, also of those that the payload has no room for."""
        return frozenset(batch.seq for batch in self.batches)

    @property
    def batch_ids(self) -> list[str]:
        """The ids of the same batches, which no other batch ever has."""
        return [batch.id for batch in self.batches]

    @property
    def payload(self) -> dict[str, Json]:
        """The event's payload. Batches that do not fit are counted in ``batches_omitted``; the log has them."""
        first, last = self.batches[0], self.batches[-1]
        payload: dict[str, Json] = {
            "schema": SCHEMA,
            "store": self.store,
            "asset": self.key.asset_name,
            "namespace": self.key.namespace,
            "key": self.key.key,
            "low": _cursor(first.low),
            "high": _cursor(last.high),
            "count": sum(batch.count for batch in self.batches),
        }
        entries = self._entries(_MOST_BYTES - _size(payload))
        payload["batches"] = list(entries)
        payload["batches_omitted"] = len(self.batches) - len(entries)
        return payload

    def _entries(self, room: int) -> list[dict[str, Any]]:
        """Every batch gets its line first, as far as there is room; what is left goes to items, oldest first."""
        entries: list[dict[str, Any]] = []
        for batch in self.batches:
            entry = _entry(batch)
            room -= _size(entry)
            if room < 0 and entries:
                break
            entries.append(entry)
        for entry, batch in zip(entries, self.batches, strict=False):
            if batch.items is None:
                continue
            items = encode(batch.items)
            room -= _size(items)
            if room < 0:
                break
            entry["items"] = items
        return entries


def _entry(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "seq": batch.seq,
        "kind": batch.kind,
        "low": _cursor(batch.low),
        "high": _cursor(batch.high),
        "count": batch.count,
    }


def _cursor(cursor: Cursor) -> Json:
    """A cursor may be any text of the source; one that would fill the event is left to the batch log."""
    form = encode(cursor)
    return form if _size(form) <= _LONGEST_CURSOR else {"$omitted": _size(form)}


def _size(form: Any) -> int:
    return len(json.dumps(form, allow_nan=False))
