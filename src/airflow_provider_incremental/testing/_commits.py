"""The store suite's part on commits: one compare-and-swap, all or nothing, numbers without gaps."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_incremental.core.batch import Batch, NewBatch
from airflow_provider_incremental.core.errors import ConflictError, StoreError, UnsupportedValueError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, WatermarkStatus
from airflow_provider_incremental.testing._stage import (
    KEY,
    NOTHING,
    WATCHES,
    appended,
    everything,
    loaded,
    seqs,
    slice_of,
)
from airflow_provider_incremental.testing.fakes import FakeClock


class CommitTests:
    """What a store promises of commits."""

    async def test_commit_moves_the_watermark_and_appends_the_batch(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """The watermark and its batch are there for everybody at once, as they were returned."""
        watermark = await store.register(KEY, WATCHES)
        clock.advance(5)
        new = slice_of(None, 10, ["a", "b"])
        moved, batches = await store.commit(watermark, 10, [new], NOTHING)
        assert (moved.cursor, moved.version, moved.last_seq, moved.moved_at) == (10, 1, 1, clock.now())
        assert moved.started
        assert await peer.load(KEY) == moved
        expected = Batch(key=KEY, id=new.id, seq=1, low=None, high=10, count=2, items_bytes=9, committed_at=clock.now())
        assert batches == [expected]
        [logged] = await peer.history(KEY)
        assert logged == replace(expected, items=["a", "b"])

    async def test_commit_without_batches_moves_the_watermark(self, store: WatermarkStore) -> None:
        """A poll may move over nothing that anybody wants."""
        moved, batches = await store.commit(await store.register(KEY, WATCHES), 10, [], NOTHING)
        assert (moved.cursor, moved.version, moved.last_seq, batches) == (10, 1, 0, [])
        assert await store.load(KEY) == moved

    async def test_sequence_numbers_have_no_gaps(self, store: WatermarkStore) -> None:
        """Batches are numbered from 1, over all commits, in the order given."""
        watermark = await store.register(KEY, WATCHES)
        numbers = []
        for size in (2, 0, 1, 3):
            batches = [slice_of(None, None, [position]) for position in range(size)]
            watermark, committed = await store.commit(watermark, None, batches, NOTHING)
            assert [each.id for each in committed] == [each.id for each in batches]
            numbers += seqs(committed)
        assert numbers == [1, 2, 3, 4, 5, 6]
        assert (watermark.last_seq, seqs(await store.history(KEY))) == (6, [6, 5, 4, 3, 2, 1])

    async def test_a_conflict_changes_nothing(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Who loaded an older version learns so, and leaves no trace: no batch, no move, no status."""
        stale = await store.register(KEY, WATCHES)
        await appended(peer, "first")
        before = await everything(store)
        report = PollReport(error="never seen", failures=3, conflicts=2, late_skipped=4, note="never seen")
        with pytest.raises(ConflictError):
            await store.commit(stale, 99, [slice_of(None, 99, ["second"])], report)
        assert await everything(store) == before

    async def test_a_forgotten_watermark_is_a_conflict(self, store: WatermarkStore) -> None:
        """A poll whose watermark was forgotten meanwhile does not bring it back."""
        watermark = await store.register(KEY, WATCHES)
        await store.forget(KEY)
        with pytest.raises(ConflictError):
            await store.commit(watermark, 1, [slice_of(None, 1, ["a"])], NOTHING)
        assert await everything(store) == (None, [], [])

    async def test_commits_at_once_have_one_winner(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Of all that commit from the same version, one moves the watermark and the others get a conflict."""
        watermark = await store.register(KEY, WATCHES)
        for number in range(1, 6):
            attempts = [
                each.commit(watermark, number, [slice_of(None, number, [number])], NOTHING)
                for each in [store, peer] * 3
            ]
            answers = await asyncio.gather(*attempts, return_exceptions=True)
            lost = [answer for answer in answers if isinstance(answer, BaseException)]
            assert [type(each) for each in lost] == [ConflictError] * 5
            watermark = await loaded(store)
            assert (watermark.version, watermark.last_seq) == (number, number)
        assert seqs(await store.history(KEY)) == [5, 4, 3, 2, 1]

    @pytest.mark.parametrize("place", ["items", "low", "high"])
    async def test_a_value_that_cannot_be_kept_commits_nothing(self, store: WatermarkStore, place: str) -> None:
        """One value without a JSON form, anywhere, and neither the batches before it nor the move are there."""
        watermark = await store.register(KEY, WATCHES)
        before = await everything(store)
        broken: dict[str, Any] = {"low": None, "high": 1, "items": ["b"], place: [object()]}
        with pytest.raises(UnsupportedValueError):
            await store.commit(watermark, 1, [slice_of(None, 1, ["a"]), NewBatch(**broken)], NOTHING)
        with pytest.raises(UnsupportedValueError):
            await store.commit(watermark, object(), [slice_of(None, 1, ["a"])], NOTHING)
        assert await everything(store) == before

    async def test_a_commit_that_fails_half_way_commits_nothing(self, store: WatermarkStore) -> None:
        """The second of two batches is refused for its id: the first is not there, and the numbers have no gap."""
        known = await appended(store, "a")
        before = await everything(store)
        again = NewBatch(low=None, high=3, items=["c"], count=1, id=known.id)
        with pytest.raises(StoreError):
            await store.commit(await loaded(store), 3, [slice_of(None, 2, ["b"]), again], NOTHING)
        assert await everything(store) == before
        assert (await appended(store, "b")).seq == 2

    async def test_commit_records_the_report(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A poll that found something is recorded in the commit, and ends what failed before."""
        await store.register(KEY, WATCHES)
        await store.report(KEY, PollReport(error="boom", failures=2))
        failed_at = clock.now()
        clock.advance(60)
        report = PollReport(conflicts=2, late_skipped=3, note="held back", next_poll_in=30)
        moved, _ = await store.commit(await loaded(store), 1, [], report)
        assert moved.status == WatermarkStatus(
            last_poll_at=clock.now(),
            next_poll_at=clock.now() + dt.timedelta(seconds=30),
            last_error_at=failed_at,
            conflicts=2,
            late_skipped=3,
            note="held back",
        )
        assert await store.load(KEY) == moved
        several = [slice_of(1, 2, ["b"]), slice_of(2, 3, ["c"])]
        for new in (several, [slice_of(3, 4, ["d"])]):  # however many batches the report comes with
            clock.advance(60)
            moved, _ = await store.commit(moved, new[-1].high, new, PollReport(next_poll_in=7))
            assert moved.status.next_poll_at == clock.now() + dt.timedelta(seconds=7)
            assert await store.load(KEY) == moved
