"""Watermarks on the move, in the database: read page by page, and taken in until the last page makes them visible.

The pages that came wait under a name of their own (:func:`core.snapshot.staging`), whose version counts them. The last
one gives the rows their watermark's name, in one transaction.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.journal import brought
from airflow_provider_incremental.core.snapshot import (
    SECTIONS,
    BatchWork,
    KnownConsumer,
    LoggedBatch,
    Place,
    Snapshot,
    staging,
)
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql import snapshot_statements, statements
from airflow_provider_incremental.stores.sql.claims import advance
from airflow_provider_incremental.stores.sql.codec import (
    EncodedBatch,
    batch_from,
    encoded,
    split_marks,
    watermark_from,
)
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.journal import Journal
from airflow_provider_incremental.stores.sql.memories import Memories
from airflow_provider_incremental.stores.sql.packets import require_room
from airflow_provider_incremental.stores.sql.snapshot_rows import (
    batch_row,
    consumer_row,
    staging_row,
    watermark_row,
    work_row,
)
from airflow_provider_incremental.stores.sql.tables import claims, consumers, watermarks

__all__ = ["Snapshots"]

_MOST_PARTS = 4000
_WHOLE_WITHIN = 900.0


class Snapshots:
    """The operations that move watermarks to another store.

    :param now: the time that stamps what is written.
    :param identity: returns the store's own.
    """

    def __init__(
        self,
        *,
        database: Database,
        now: Callable[[], Awaitable[dt.datetime]],
        identity: Callable[[], Awaitable[str]],
        memories: Memories,
        journal: Journal,
    ) -> None:
        self._database = database
        self._now = now
        self._identity = identity
        self._memories = memories
        self._journal = journal
        self._append = statements.append(database.dialect)

    async def export(self, key: WatermarkKey, place: Place, page_bytes: int) -> Snapshot | None:
        """See the protocol."""
        asked = {"watermark": key.id, "most": _MOST_PARTS}

        async def work(connection: AsyncConnection) -> tuple[Any, dict[str, Sequence[Any]], Place | None]:
            head = (await connection.execute(snapshot_statements.SELECT_HEAD, asked)).first()
            if head is None:
                return None, {}, None
            parts, following = await _fill(connection, asked, place, page_bytes)
            parts |= await _contents(connection, asked, parts)
            return head, parts, following

        head, parts, following = await self._database.read(work)
        if head is None:
            return None
        return Snapshot(
            store=await self._identity(),
            watermark=watermark_from(head, key),
            announced_at=head.announced_at,
            announced_seq=head.announced_seq,
            number=place.number,
            pieces={row.name: bytes(row.piece) for row in parts["pieces"]},
            batches=tuple([await _logged(row, key) for row in parts["batches"]]),
            consumers=tuple(map(_known, parts["consumers"])),
            work=tuple(map(_done, parts["work"])),
            next=following,
        )

    async def restore(self, page: Snapshot, act: Act | None) -> None:
        """See the protocol."""
        page.require_sound()
        key, now = page.watermark.key, await self._now()
        rows = await encoded([_new(each) for each in page.batches])

        async def work(connection: AsyncConnection) -> None:
            there = (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).first()
            if there is not None:
                if page.next is None and watermark_from(there, key) == page.watermark:
                    return
                raise _there_already(key)
            try:
                if await _add(connection, page, now):
                    await self._insert(connection, page, rows)
                    if page.next is None:
                        await self._complete(connection, page, act, now)
            except sa.exc.IntegrityError as error:
                raise _there_already(key) from error

        # The last page touches every row: a second for 100,000 of them.
        await self._database.write(work, repeatable=True, within=_WHOLE_WITHIN if page.next is None else None)

    async def _insert(self, connection: AsyncConnection, page: Snapshot, rows: Sequence[EncodedBatch]) -> None:
        """Write what a page has, under the name where the pages wait."""
        waits = staging(page.watermark.key)
        if self._database.dialect.limits_packets:
            await require_room(connection, list(rows), page.pieces)
        await self._memories.change(connection, waits, page.pieces)
        as_hex = self._database.dialect.bytes_as_hex
        batches = [
            batch_row(waits.id, each.batch, row, as_hex=as_hex) for each, row in zip(page.batches, rows, strict=True)
        ]
        for statement, new in (
            (self._append, batches),
            (sa.insert(consumers), [consumer_row(waits.id, each) for each in page.consumers]),
            (sa.insert(claims), [work_row(waits.id, each) for each in page.work]),
        ):
            if new:
                await connection.execute(statement, new)

    async def _complete(self, connection: AsyncConnection, page: Snapshot, act: Act | None, now: dt.datetime) -> None:
        """Give all that waits its watermark, and its name."""
        key = page.watermark.key
        await connection.execute(sa.insert(watermarks), watermark_row(page, now))
        names = {"watermark": key.id, "staging": staging(key).id}
        for statement in snapshot_statements.MOVE_ROWS:
            await connection.execute(statement, names)
        await connection.execute(statements.DELETE_WATERMARK, {"watermark": names["staging"]})
        for row in (await connection.execute(snapshot_statements.SELECT_CONSUMERS, names)).all():
            await advance(connection, key, row.consumer)
        detail = brought(page.store, page.watermark.version, page.watermark.last_seq)
        await self._journal.write(connection, key, now, "copy", detail, act=act)


async def _fill(
    connection: AsyncConnection, asked: dict[str, Any], place: Place, page_bytes: int
) -> tuple[dict[str, Sequence[Any]], Place | None]:
    """Return what a page has room for of each section, and where the next page begins."""
    parts: dict[str, Sequence[Any]] = dict.fromkeys(SECTIONS, ())
    room = page_bytes
    for section in SECTIONS[SECTIONS.index(place.section) :]:
        name, seq = (place.name, place.seq) if section == place.section else ("", 0)
        rows = (
            await connection.execute(snapshot_statements.PARTS[section], asked | {"name_": name, "seq_": seq})
        ).all()
        fitting: list[Any] = []
        for row in rows:
            if row.weight > room and (fitting or any(parts.values())):
                break
            fitting.append(row)
            room -= row.weight
        parts[section] = fitting
        if len(fitting) < len(rows) or len(rows) == _MOST_PARTS:
            name, seq = (fitting[-1].name, fitting[-1].seq) if fitting else (name, seq)
            return parts, Place(number=place.number + 1, section=section, name=name, seq=seq)
    return parts, None


async def _contents(
    connection: AsyncConnection, asked: dict[str, Any], parts: dict[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    """Read what is too big to be read before it is known to fit."""
    pieces: list[Any] = []
    for names in statements.in_parts([row.name for row in parts["pieces"]]):
        pieces += await connection.execute(snapshot_statements.SELECT_PIECES, asked | {"names": names})
    batches: list[Any] = []
    if parts["batches"]:
        edges = {"first": parts["batches"][0].seq, "last": parts["batches"][-1].seq}
        batches += await connection.execute(snapshot_statements.SELECT_BATCHES, asked | edges)
    return {"pieces": pieces, "batches": batches}


async def _add(connection: AsyncConnection, page: Snapshot, now: dt.datetime) -> bool:
    """Count a page where the pages wait; False when it has come before.

    :raises ConflictError: when the page before it is missing.
    """
    waits = staging(page.watermark.key)
    turn = {"watermark": waits.id, "number": page.number}
    if page.number == 0:
        await connection.execute(statements.DELETE_WATERMARK, turn)
        await connection.execute(sa.insert(watermarks), staging_row(page, now))
    if (await connection.execute(snapshot_statements.ADD_PAGE, turn)).rowcount:
        return True
    there = (await connection.execute(statements.SELECT_WATERMARK, turn)).first()
    if there is not None and there.version == page.number + 1:
        return False
    key = page.watermark.key
    msg = f"page {page.number} of watermark {key} does not follow the page before; begin with the first"
    raise ConflictError(msg)


async def _logged(row: Any, key: WatermarkKey) -> LoggedBatch:
    batch = await batch_from(row, key, row.payload)
    return LoggedBatch(batch=batch, fingerprints=split_marks(row.fingerprints))


def _known(row: Any) -> KnownConsumer:
    return KnownConsumer(
        consumer=row.name, start_seq=row.start_seq, first_seen_at=row.first_seen_at, last_seen_at=row.last_seen_at
    )


def _done(row: Any) -> BatchWork:
    return BatchWork(
        consumer=row.name,
        seq=row.seq,
        state=row.state,
        holder=row.holder,
        attempt=row.attempt,
        lease_until=row.lease_until,
        stamped_at=row.claimed_at,
        error=row.last_error,
    )


def _new(each: LoggedBatch) -> NewBatch:
    batch = each.batch
    return NewBatch(
        id=batch.id,
        low=batch.low,
        high=batch.high,
        items=batch.items or [],
        count=batch.count,
        kind=batch.kind,
        fingerprints=each.fingerprints,
    )


def _there_already(key: WatermarkKey) -> ConflictError:
    msg = f"there is a watermark {key}, or a batch of it, in this store already; nothing was changed"
    return ConflictError(msg)
