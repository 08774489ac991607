"""Commits on real databases: one winner, all or nothing, and never a second copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore

KEY = WatermarkKey("orders")
WATCHES = Watches("table orders", "id")
NOTHING = PollReport()
OpenStore = Callable[..., SqlStore]


def batch_of(number: int) -> NewBatch:
    """A batch with one item."""
    return NewBatch(low=number, high=number + 1, items=[number], count=1)


async def test_two_writers_leave_no_gap_and_no_copy(database: str, opened: OpenStore) -> None:
    """Two writers that read, commit and, on a conflict, read again: every number is in the log once, in order."""
    stores = [opened(database), opened(database)]
    await stores[0].register(KEY, WATCHES)
    conflicts = 0

    async def write(store: SqlStore) -> None:
        nonlocal conflicts
        while (watermark := await store.load(KEY)) and (watermark.cursor or 0) < 60:
            number = watermark.cursor or 0
            try:
                await store.commit(watermark, number + 1, [batch_of(number)], NOTHING)
            except ConflictError:
                conflicts += 1

    await asyncio.gather(*(write(store) for store in stores for _ in range(2)))
    log = await stores[0].history(KEY, limit=1000)
    assert [(batch.seq, batch.items) for batch in reversed(log)] == [(n + 1, [n]) for n in range(60)]
    assert conflicts > 0


async def test_a_commit_repeated_after_its_answer_was_lost_is_a_conflict(database: str, opened: OpenStore) -> None:
    """The same commit again changes nothing, whether the watermark was loaded anew in between or not."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    new = [batch_of(0), batch_of(1)]
    moved, _ = await store.commit(watermark, 2, new, NOTHING)
    for version in (watermark, moved):
        with pytest.raises(ConflictError):
            await store.commit(version, 2, new, NOTHING)
        with pytest.raises(ConflictError):
            await store.commit(version, 3, [batch_of(2), new[1]], NOTHING)
    assert await store.load(KEY) == moved
    assert len(await store.history(KEY)) == 2


async def test_a_commit_that_the_database_applied_but_could_not_answer(
    database: str, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks right after the commit: it is in the log once, and the caller is told to load again."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    breaks = iter([True])
    inner = store._positions._commit

    async def unanswered(*asked: Any) -> Any:
        answer = await inner(*asked)
        return await inner(*asked) if next(breaks, False) else answer

    monkeypatch.setattr(store._positions, "_commit", unanswered)
    with pytest.raises(ConflictError):
        await store.commit(watermark, 1, [batch_of(0)], NOTHING)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert (loaded.cursor, loaded.version) == (1, 1)
    assert [batch.items for batch in await store.history(KEY)] == [[0]]


async def test_a_conflict_with_a_forgotten_watermark_appends_nothing(database: str, opened: OpenStore) -> None:
    """A poll that began before a watermark was forgotten does not bring its batches back."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    await store.forget(KEY)
    with pytest.raises(ConflictError, match=r"orders .* version 0"):
        await store.commit(watermark, 1, [batch_of(0)], NOTHING)
    assert await store.load(KEY) is None
    async with store.database.engine.connect() as connection:
        rows = await connection.execute(sa.text("SELECT count(*) FROM asset_watermark_batches"))
        assert rows.scalar_one() == 0


async def test_what_was_registered_meanwhile_is_in_the_moved_watermark(database: str, opened: OpenStore) -> None:
    """A watermark that was loaded before somebody recorded what it watches comes back complete."""
    store = opened(database)
    by_hand = await store.rewind(KEY, 5, reread=True)
    await store.register(KEY, WATCHES)
    await store.report(KEY, PollReport(error="boom", failures=2, conflicts=3, late_skipped=4))
    moved, _ = await store.commit(by_hand, 6, [], PollReport(conflicts=1))
    assert moved == await store.load(KEY)
    assert moved.watches == WATCHES
    assert (moved.status.conflicts, moved.status.late_skipped) == (4, 4)
    assert moved.status.last_error_at is not None


async def test_text_that_no_database_takes_is_cleaned(database: str, opened: OpenStore) -> None:
    """A NUL or half a character in an error or a note costs neither the report nor the commit."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    odd = PollReport(error="a\x00b\ud800", note="\x00", failures=1)
    await store.report(KEY, odd)
    loaded = await store.load(KEY)
    assert loaded is not None
    assert (loaded.status.last_error, loaded.status.note) == ("a\\0b?", "\\0")
    moved, _ = await store.commit(watermark, 1, [batch_of(0)], odd)
    assert moved == await store.load(KEY)


async def test_a_watermark_from_long_ago_is_a_conflict_not_a_copy(database: str, opened: OpenStore) -> None:
    """Any version but the present one is refused, also one from the future of a restored database."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    moved, _ = await store.commit(watermark, 1, [], NOTHING)
    for version in (0, moved.version + 1):
        with pytest.raises(ConflictError):
            await store.commit(_at(moved, version), 2, [batch_of(0)], NOTHING)
    assert await store.history(KEY) == []


def _at(watermark: Watermark, version: int) -> Watermark:
    return replace(watermark, version=version)
