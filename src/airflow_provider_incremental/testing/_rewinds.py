"""The store suite's part on what people do to a watermark: rewind and rewatch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._stage import (
    KEY,
    NOTHING,
    OTHER,
    WATCHES,
    appended,
    loaded,
    log_of,
    seqs,
    slice_of,
)
from airflow_provider_incremental.testing.fakes import FakeClock


class RewindTests:
    """What a store promises of watermarks that are set by hand."""

    async def test_rewind_sets_the_cursor_and_conflicts_with_a_poll_under_way(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """The version moves on though the cursor moves back; the poll that began before commits nothing."""
        await log_of(store, 3)
        polling = await loaded(store)
        clock.advance(9)
        rewound = await peer.rewind(KEY, 1, reread=False)
        assert (rewound.cursor, rewound.version, rewound.last_seq) == (1, polling.version + 1, 3)
        assert (rewound.reread_after_seq, rewound.watches, rewound.moved_at) == (0, WATCHES, clock.now())
        assert await store.load(KEY) == rewound
        with pytest.raises(ConflictError):
            await store.commit(polling, 4, [slice_of(3, 4, ["d"])], NOTHING)
        assert await store.load(KEY) == rewound
        assert seqs(await store.history(KEY)) == [3, 2, 1]
        assert (await appended(store, "again")).seq == 4

    async def test_rewind_with_reread_forgets_what_was_seen(self, store: WatermarkStore) -> None:
        """Fingerprints up to the newest batch stop counting; a later rewind without reread leaves it so."""
        await log_of(store, 3)
        assert (await store.rewind(KEY, None, reread=True)).reread_after_seq == 3
        await appended(store, "d")
        assert (await store.rewind(KEY, 1, reread=False)).reread_after_seq == 3
        assert (await store.rewind(KEY, 1, reread=True)).reread_after_seq == 4

    async def test_rewind_with_rewatch_lets_another_source_in(self, store: WatermarkStore) -> None:
        """After a rewatch the next trigger that registers decides what is watched; the cursor stays as set."""
        await log_of(store, 1)
        assert (await store.rewind(KEY, 5, reread=False, rewatch=True)).watches is None
        registered = await store.register(KEY, OTHER)
        assert (registered.watches, registered.cursor, registered.last_seq) == (OTHER, 5, 1)

    async def test_rewatch_keeps_the_position(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Another source may come, and goes on from there; a poll of the old one is a conflict."""
        await log_of(store, 1)
        polling = await loaded(store)
        given_up = await peer.rewatch(KEY)
        assert given_up == await store.load(KEY)
        assert given_up == replace(polling, watches=None, version=polling.version + 1)
        with pytest.raises(ConflictError):
            await store.commit(polling, 2, [slice_of(1, 2, ["b"])], NOTHING)
        assert (await store.register(KEY, OTHER)).cursor == polling.cursor

    async def test_rewatch_decides_no_start(self, store: WatermarkStore) -> None:
        """Where nothing was read there is no position to keep: the next trigger still starts where it says."""
        polling = await store.register(KEY, WATCHES)
        given_up = await store.rewatch(KEY)
        assert given_up == replace(polling, watches=None)
        with pytest.raises(ConflictError):
            await store.commit(polling, 1, [], NOTHING)
        assert not (await store.register(KEY, OTHER)).started

    async def test_rewatch_of_what_is_not_there_is_none(self, store: WatermarkStore) -> None:
        """It makes no watermark."""
        assert await store.rewatch(KEY) is None
        assert await store.load(KEY) is None

    @pytest.mark.parametrize("cursor", [None, 5])
    async def test_rewind_of_what_is_not_there_makes_it_started(
        self, store: WatermarkStore, cursor: int | None
    ) -> None:
        """A watermark can be set before its trigger exists, and then no start position is applied to it."""
        made = await store.rewind(KEY, cursor, reread=True)
        assert (made.cursor, made.started, made.last_seq, made.watches) == (cursor, True, 0, None)
        assert await store.load(KEY) == made
