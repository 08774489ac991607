"""Segments: immutable objects with the items and fingerprints of the batches of one commit, one after the other.

A segment is written before the document that names it. One that no document names is what a commit left that did not
come to its end.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES, Batch, NewBatch, SeenBatch
from airflow_provider_incremental.core.errors import StoreError, UnsupportedValueError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores._memory_state import copied
from airflow_provider_incremental.stores.objects.bucket import Bucket
from airflow_provider_incremental.stores.objects.document import Located, new_token

__all__ = ["Segment", "Segments", "new_segment"]

_AT_ONCE = 8
_NOTHING = "[]"
_BIG = 100_000


@dataclass(frozen=True, slots=True)
class Segment:
    """Batches about to be committed, and the bytes of the object for them.

    :param name: None when there is nothing to keep.
    """

    name: str | None
    body: bytes
    parts: Sequence[Located]

    def numbered(self, last_seq: int, now: dt.datetime) -> list[Located]:
        """Return the batches with the numbers that follow, as committed now."""
        return [
            replace(each, batch=replace(each.batch, seq=seq, committed_at=now))
            for seq, each in enumerate(self.parts, last_seq + 1)
        ]


async def new_segment(key: WatermarkKey, last_seq: int, batches: Sequence[NewBatch]) -> Segment:
    """Return batches with what an object holds of them; in a thread, as rows may be many.

    :raises UnsupportedValueError: when one holds a value without a JSON form.
    """
    return await asyncio.to_thread(_segment, key, last_seq, batches) if batches else Segment(None, b"", ())


def _segment(key: WatermarkKey, last_seq: int, batches: Sequence[NewBatch]) -> Segment:
    name = f"s-{last_seq + 1:010}-{new_token()}"
    body = bytearray()
    parts = []
    for new in batches:
        items = values.dumps(list(new.items))
        marks = tuple(new.fingerprints)
        batch = Batch(
            key=key,
            id=new.id,
            seq=0,
            low=copied(new.low),
            high=copied(new.high),
            count=new.count,
            kind=new.kind,
            items_bytes=len(items),
        )
        kept = items != _NOTHING or bool(marks)
        parts.append(Located(batch, "null", (), name if kept else None, len(body) if kept else 0, len(marks)))
        if kept:
            body += items.encode() + b"".join(marks)
    return Segment(name if body else None, bytes(body), parts)


class Segments:
    """Reads what is in the segments of a bucket."""

    def __init__(self, *, bucket: Bucket) -> None:
        self._bucket = bucket
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def with_items(self, folder: str, chosen: Iterable[tuple[Located, bool]]) -> list[Batch]:
        """Return batches as they are listed, with the items of those for which this is asked.

        :raises MissingObjectError: when a segment is not there any more.
        """

        async def one(each: Located, wanted: bool) -> Batch:
            batch = each.listed(with_items=False)
            return replace(batch, items=await self.items(folder, each)) if wanted else batch

        return await asyncio.gather(*(one(each, wanted) for each, wanted in chosen))

    async def items(self, folder: str, each: Located) -> list[Any]:
        """Return the items of a batch."""
        if each.segment is None:
            return []
        body = await self._part(folder, each.segment, each.offset, each.batch.items_bytes)
        try:
            found: list[Any] = await asyncio.to_thread(_loaded, body) if len(body) > _BIG else _loaded(body)
        except (UnsupportedValueError, ValueError, RecursionError) as error:
            msg = (
                f"the items of batch {each.batch.seq} of watermark {each.batch.key} cannot be read here: "
                f"{describe(error)}. They are kept; upgrade airflow-provider-incremental on this machine"
            )
            raise StoreError(msg) from error
        return found

    async def whole(self, folder: str, each: Located) -> tuple[list[Any], tuple[bytes, ...]]:
        """Return the items and the fingerprints of a batch."""
        [seen] = await self.seen(folder, [each])
        return await self.items(folder, each), seen.fingerprints

    async def seen(self, folder: str, chosen: Sequence[Located]) -> list[SeenBatch]:
        """Return the fingerprints of batches."""

        async def one(each: Located) -> SeenBatch:
            marks: tuple[bytes, ...] = ()
            if each.segment is not None and each.marks:
                start, size = each.offset + each.batch.items_bytes, each.marks * FINGERPRINT_BYTES
                body = await self._part(folder, each.segment, start, size)
                marks = tuple(body[at : at + FINGERPRINT_BYTES] for at in range(0, size, FINGERPRINT_BYTES))
            return SeenBatch(each.batch.seq, copied(each.batch.high), marks)

        return await asyncio.gather(*(one(each) for each in chosen))

    async def _part(self, folder: str, name: str, start: int, size: int) -> bytes:
        async with self._turn:
            return await self._bucket.read_part(folder + name, start, size)


def _loaded(body: bytes) -> Any:
    return values.loads(body.decode())
