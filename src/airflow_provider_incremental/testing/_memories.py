"""The store suite's part on what sources remember: it changes with a commit, or not at all."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing._stage import KEY, NOTHING, OTHER, WATCHES, loaded, slice_of

_ALL = ("", "", 100)


class MemoryTests:
    """What a store promises of the memory of sources."""

    async def test_pieces_are_written_replaced_and_forgotten_with_commits(
        self, store: WatermarkStore, peer: WatermarkStore
    ) -> None:
        """Each commit names what changes; the rest stays, byte for byte."""
        assert await store.remembered(KEY, *_ALL) == []
        watermark = await store.register(KEY, WATCHES)
        odd = bytes(range(256)) * 3
        watermark, _ = await store.commit(watermark, 1, [], NOTHING, {"a": b"1", "b": odd, "empty": b""})
        assert await peer.remembered(KEY, *_ALL) == [("a", b"1"), ("b", odd), ("empty", b"")]
        news = [slice_of(1, 2, ["item"])]
        watermark, batches = await store.commit(watermark, 2, news, NOTHING, {"a": None, "b": b"2", "c": b"3"})
        assert (watermark.version, batches[0].seq) == (2, 1)
        assert await peer.remembered(KEY, *_ALL) == [("b", b"2"), ("c", b"3"), ("empty", b"")]

    async def test_a_conflict_changes_no_piece(self, store: WatermarkStore) -> None:
        """Of two polls from the same version, only the one that moved the watermark is remembered."""
        stale = await store.register(KEY, WATCHES)
        await store.commit(stale, 1, [], NOTHING, {"a": b"first"})
        with pytest.raises(ConflictError):
            await store.commit(stale, 1, [], NOTHING, {"a": b"second", "b": b"second"})
        assert await store.remembered(KEY, *_ALL) == [("a", b"first")]

    async def test_pieces_come_in_byte_order_by_prefix_and_page(self, store: WatermarkStore) -> None:
        """Names are compared byte by byte: no collation, no pattern, and no piece of another watermark."""
        names = ["Z", "a-1", "a-2", "a.", "a_1", "a~", "b%", "b%c", "bc", "é".encode().hex()]
        watermark = await store.register(KEY, WATCHES)
        await store.commit(watermark, 1, [], NOTHING, {name: name.encode() for name in reversed(names)})
        assert [name for name, _ in await store.remembered(KEY, *_ALL)] == sorted(names)
        assert [name for name, _ in await store.remembered(KEY, "a", "", 100)] == ["a-1", "a-2", "a.", "a_1", "a~"]
        assert [name for name, _ in await store.remembered(KEY, "a", "a-1", 2)] == ["a-2", "a."]
        assert [name for name, _ in await store.remembered(KEY, "b%", "", 100)] == ["b%", "b%c"]
        assert [name for name, _ in await store.remembered(KEY, "a-2", "a-2", 100)] == []

    async def test_a_thousand_pieces_at_once(self, store: WatermarkStore) -> None:
        """A bucket's known keys are many pieces, and may all change in one commit."""
        pieces = {f"known/{number:06d}": b"%d" % number for number in range(1200)}
        watermark, _ = await store.commit(await store.register(KEY, WATCHES), 1, [], NOTHING, pieces)
        assert len(await store.remembered(KEY, "known/", "", 5000)) == 1200
        await store.commit(watermark, 2, [], NOTHING, dict.fromkeys(pieces))
        assert await store.remembered(KEY, *_ALL) == []

    async def test_pieces_stay_as_long_as_their_source_is_watched(self, store: WatermarkStore) -> None:
        """A rewind keeps them; another source, and a watermark made anew, begin without."""
        await store.commit(await store.register(KEY, WATCHES), 1, [], NOTHING, {"a": b"1"})
        await store.rewind(KEY, None, reread=True)
        assert await store.remembered(KEY, *_ALL) == [("a", b"1")]
        await store.rewatch(KEY)
        assert await store.remembered(KEY, *_ALL) == []
        await store.register(KEY, OTHER)
        await store.commit(await loaded(store), 1, [], NOTHING, {"a": b"2"})
        await store.rewind(KEY, None, reread=True, rewatch=True)
        assert await store.remembered(KEY, *_ALL) == []
        await store.register(KEY, OTHER)
        await store.commit(await loaded(store), 1, [], NOTHING, {"a": b"3"})
        assert await store.forget(KEY)
        await store.register(KEY, OTHER)
        assert await store.remembered(KEY, *_ALL) == []
