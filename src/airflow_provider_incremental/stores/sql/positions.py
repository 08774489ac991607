"""Watermarks in the database: made, moved with their batches by compare-and-swap, set back, listed, deleted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.core.batch import Batch, NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.journal import FORGOTTEN, REWATCHED, rewound
from airflow_provider_incremental.core.source import Pieces
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import Cursor, PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores.sql import statements
from airflow_provider_incremental.stores.sql.codec import (
    EncodedBatch,
    cursor_text,
    encoded,
    key_from,
    listed_watermark,
    text_or_none,
    watches_from,
    watermark_from,
)
from airflow_provider_incremental.stores.sql.database import Database
from airflow_provider_incremental.stores.sql.hot_commit import hot_commit
from airflow_provider_incremental.stores.sql.journal import Journal
from airflow_provider_incremental.stores.sql.memories import Memories
from airflow_provider_incremental.stores.sql.packets import require_room
from airflow_provider_incremental.stores.sql.readable import listed_cursor

__all__ = ["Positions"]


class Positions:
    """The operations on watermarks.

    :param now: the time that stamps what is written.
    """

    def __init__(
        self,
        *,
        database: Database,
        now: Callable[[], Awaitable[dt.datetime]],
        memories: Memories,
        journal: Journal,
    ) -> None:
        self._database = database
        self._journal = journal
        self._memories = memories
        self._now = now
        self._insert = statements.insert_watermark(database.dialect)
        self._append = statements.append(database.dialect)

    async def load(self, key: WatermarkKey) -> Watermark | None:
        """See the protocol."""

        async def work(connection: AsyncConnection) -> Any:
            return (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).first()

        row = await self._database.read(work)
        return None if row is None else watermark_from(row, key)

    async def register(self, key: WatermarkKey, watches: Watches) -> Watermark:
        """See the protocol."""
        what = {"watermark": key.id, **_watched(watches)}
        new = self._new(key, await self._now()) | {"watches_source": what["source"], "watches_cursor": what["shape"]}

        async def work(connection: AsyncConnection) -> Any:
            await connection.execute(self._insert, new)
            await connection.execute(statements.SET_WATCHES, what)
            return (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).one()

        watermark = watermark_from(await self._database.write(work, repeatable=True), key)
        if watermark.watches is not None:
            watermark.watches.require_same(key, watches)
        return watermark

    async def commit(
        self,
        watermark: Watermark,
        high: Cursor,
        batches: Sequence[NewBatch],
        report: PollReport,
        remember: Pieces,
    ) -> tuple[Watermark, list[Batch]]:
        """See the protocol."""
        now = await self._now()
        # Of one watermark, batches are never in one order by time and in another by number, whatever a clock does.
        moved_at = max(now, watermark.moved_at or now)
        rows = await encoded(batches)
        values = _report_values(watermark.key, report, now) | {
            "version_": watermark.version,
            "created_at_": watermark.created_at,
            "cursor_": cursor_text(high),
            "added": len(rows),
            "moved_at_": moved_at,
            **_watched(watermark.watches),
        }
        row = await self._commit(watermark, values, rows, remember)
        if row is None:
            msg = (
                f"watermark {watermark.key} is not at version {watermark.version} any more: somebody else moved it. "
                "Nothing was changed; load it and poll again"
            )
            raise ConflictError(msg)
        moved = _moved(watermark, high, values, report, row)
        first = moved.last_seq - len(rows) + 1
        return moved, [
            _appended(moved, seq, batch, len(row.items), moved_at)
            for seq, (batch, row) in enumerate(zip(batches, rows, strict=True), first)
        ]

    async def _commit(
        self, watermark: Watermark, values: dict[str, Any], rows: list[EncodedBatch], remember: Pieces
    ) -> Any:
        """Return the moved row, or None. Doing it twice is a conflict, which is what makes it safe to repeat."""
        if self._database.commits_in_one_statement and not remember:
            return await self._database.driver_statement(lambda each: hot_commit(each, values, rows))

        async def work(connection: AsyncConnection) -> Any:
            if (await connection.execute(statements.MOVE, values)).rowcount == 0:
                return None
            asked = {"watermark": watermark.key.id}
            moved = (await connection.execute(statements.SELECT_WATERMARK, asked)).mappings().one()
            first = moved["last_seq"] - len(rows) + 1
            new = [self._row(watermark.key, seq, each, values["moved_at_"]) for seq, each in enumerate(rows, first)]
            if self._database.dialect.limits_packets:
                await require_room(connection, rows, remember)
            try:
                if new:
                    await connection.execute(self._append, new)
            except sa.exc.IntegrityError:
                # The id of a batch is in the log: the same commit was made before, and its answer was lost.
                await self._database.undo(connection)
                return None
            await self._memories.change(connection, watermark.key, remember)
            return moved

        return await self._database.write(work, repeatable=True)

    async def report(self, key: WatermarkKey, report: PollReport) -> None:
        """See the protocol."""
        values = _report_values(key, report, await self._now())
        await self._database.statement(lambda each: each.execute(statements.REPORT, values), repeatable=False)

    async def list_watermarks(self, selector: Selector | None) -> list[Watermark]:
        """See the protocol."""

        async def work(connection: AsyncConnection) -> Sequence[Any]:
            if selector is None:
                return (await connection.execute(statements.SELECT_ALL_WATERMARKS)).all()
            asset = {"asset_hash_": statements.asset_hash(selector.asset_name)}
            return (await connection.execute(statements.SELECT_WATERMARKS_OF_ASSET, asset)).all()

        found = [listed_watermark(row, key_from(row)) for row in await self._database.read(work)]
        chosen = [each for each in found if selector is None or selector.matches(each.key)]
        return sorted(chosen, key=lambda each: (each.key.asset_name, each.key.namespace, each.key.key))

    async def rewind(
        self, key: WatermarkKey, cursor: Cursor, *, reread: bool, rewatch: bool, act: Act | None
    ) -> Watermark:
        """See the protocol."""
        now = await self._now()
        change = {"watermark": key.id, "cursor_": cursor_text(cursor), "now": now}

        async def work(connection: AsyncConnection) -> Any:
            await connection.execute(self._insert, self._new(key, now))
            before = (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).one()
            detail = rewound(listed_cursor(before.cursor), cursor, reread=reread, rewatch=rewatch)
            await self._journal.write(connection, key, now, "rewind", detail, act=act)
            await connection.execute(statements.rewind(reread=reread, rewatch=rewatch), change)
            if rewatch:
                await self._memories.forget(connection, key)
            return (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).one()

        return watermark_from(await self._database.write(work, repeatable=act is None), key)

    async def rewatch(self, key: WatermarkKey, act: Act | None) -> Watermark | None:
        """See the protocol."""
        now = await self._now()

        async def work(connection: AsyncConnection) -> Any:
            if (await connection.execute(statements.REWATCH, {"watermark": key.id})).rowcount:
                await self._journal.write(connection, key, now, "rewatch", REWATCHED, act=act)
            await self._memories.forget(connection, key)
            return (await connection.execute(statements.SELECT_WATERMARK, {"watermark": key.id})).first()

        row = await self._database.write(work, repeatable=act is None)
        return None if row is None else listed_watermark(row, key)

    async def forget(self, key: WatermarkKey, act: Act | None) -> bool:
        """See the protocol."""
        now = await self._now()

        async def work(connection: AsyncConnection) -> bool:
            gone = (await connection.execute(statements.DELETE_WATERMARK, {"watermark": key.id})).rowcount > 0
            if gone:
                await self._journal.write(connection, key, now, "forget", FORGOTTEN, act=act)
            return gone

        return await self._database.write(work, repeatable=False)

    def _new(self, key: WatermarkKey, now: dt.datetime) -> dict[str, Any]:
        return {
            "id": key.id,
            "asset_name": key.asset_name,
            "asset_hash": statements.asset_hash(key.asset_name),
            "namespace": key.namespace,
            "key": key.key,
            "cursor": None,
            "created_at": now,
            "watches_source": None,
            "watches_cursor": None,
            **dict.fromkeys(
                ("version", "last_seq", "reread_after_seq", "failures", "conflicts", "late_skipped", "announced_seq"), 0
            ),
        }

    def _row(self, key: WatermarkKey, seq: int, batch: EncodedBatch, committed_at: dt.datetime) -> dict[str, Any]:
        return {
            "watermark_id": key.id,
            "seq": seq,
            "id": batch.id,
            "kind": batch.kind,
            "low": batch.low,
            "high": batch.high,
            "count": batch.count,
            "items": batch.items,
            "items_bytes": len(batch.items),
            "marks": batch.fingerprints.hex() if self._database.dialect.bytes_as_hex else batch.fingerprints,
            "committed_at": committed_at,
        }


def _watched(watches: Watches | None) -> dict[str, Any]:
    return {
        "source": text_or_none(watches.source if watches else None),
        "shape": text_or_none(watches.cursor if watches else None),
    }


def _report_values(key: WatermarkKey, report: PollReport, now: dt.datetime) -> dict[str, Any]:
    return {
        "watermark": key.id,
        "now": now,
        "error": text_or_none(report.error),
        "failed": report.error is not None,
        "failures_": report.failures,
        "conflicts_": report.conflicts,
        "late_skipped_": report.late_skipped,
        "note_": text_or_none(report.note),
        "next_poll_at_": report.next_poll_at(now),
    }


def _moved(watermark: Watermark, high: Cursor, values: dict[str, Any], report: PollReport, row: Any) -> Watermark:
    """Put together what we wrote and what only the database knew: nothing is read again."""
    status = replace(
        watermark.status,
        last_poll_at=values["now"],
        next_poll_at=values["next_poll_at_"],
        last_error=values["error"],
        last_error_at=row["last_error_at"],
        failures=report.failures,
        conflicts=row["conflicts"],
        late_skipped=row["late_skipped"],
        note=values["note_"],
    )
    return replace(
        watermark,
        cursor=high,
        version=row["version"],
        last_seq=row["last_seq"],
        watches=watches_from(row["watches_source"], row["watches_cursor"]),
        reread_after_seq=row["reread_after_seq"],
        moved_at=values["moved_at_"],
        status=status,
    )


def _appended(watermark: Watermark, seq: int, batch: NewBatch, size: int, committed_at: dt.datetime) -> Batch:
    return Batch(
        key=watermark.key,
        id=batch.id,
        seq=seq,
        low=batch.low,
        high=batch.high,
        count=batch.count,
        kind=batch.kind,
        items_bytes=size,
        committed_at=committed_at,
    )
