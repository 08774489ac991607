"""The store suite's part on watermarks that move to another store: everything, in pages, or nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.snapshot import FIRST, PAGE_BYTES, Snapshot
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.testing._stage import (
    ANNA,
    EU,
    KEY,
    LONG,
    NOTHING,
    ORDERS,
    WATCHES,
    appended,
    busy,
    confirmed,
    done,
    loaded,
    log_of,
    slice_of,
    taken,
    waiting,
)
from airflow_provider_incremental.testing.fakes import FakeClock

_ONE = Selector("orders", "default", "default")


class SnapshotTests:
    """What a store promises to whoever moves its watermarks elsewhere, or brings others."""

    @pytest.mark.parametrize("page_bytes", [PAGE_BYTES, 1500, 1])
    async def test_a_watermark_moves_with_all_that_belongs_to_it(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock, page_bytes: int
    ) -> None:
        """Position, status, memory, log, fingerprints, consumers, and what each did with each batch."""
        held = await busy(store, clock)
        before = await _view(store)
        pages = await _pages(store, page_bytes)
        assert len(pages) > (1 if page_bytes < PAGE_BYTES else 0)
        await store.forget(KEY)
        for page in pages:
            await peer.restore(page)
        assert await _view(store) == before
        assert await _view(peer) == before
        assert await _pages(peer, page_bytes) == pages
        await peer.acknowledge(held)
        assert await peer.acknowledged(_ONE, "load", held.batch.id)

    async def test_everything_goes_on_after_a_move(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A trigger commits from the version that it loaded before; consumers get what they have not finished."""
        await busy(store, clock)
        watermark = await loaded(store)
        await _move(store)
        moved, [batch] = await store.commit(watermark, 8, [slice_of(7, 8, ["new"])], NOTHING)
        assert (moved.version, batch.seq) == (watermark.version + 1, watermark.last_seq + 1)
        clock.advance(LONG)
        assert await waiting(store) == [2, 4, 7, batch.seq]
        assert [(await taken(store)).batch.seq, (await taken(store, holder="worker-2")).attempt] == [2, 2]
        assert await store.replay(KEY, 1, 9, dead_only=True) == {"load": 1, "mail": 0}
        with pytest.raises(ConflictError):
            await store.commit(watermark, 8, [slice_of(7, 8, ["again"])], NOTHING)

    @pytest.mark.parametrize("page_bytes", [PAGE_BYTES, 1500])
    async def test_what_was_announced_and_is_not_finished_is_waited_for_after_a_move(
        self, store: WatermarkStore, peer: WatermarkStore, page_bytes: int
    ) -> None:
        """However many pages it took: what was finished stays finished, and the rest is still to be done."""
        await store.register(KEY, WATCHES)
        await store.subscribe(ORDERS, "load", "earliest")
        await confirmed(store, *await log_of(store, 30))
        last = (await done(store, 10))[-1]
        pages = await _pages(store, page_bytes)
        await store.forget(KEY)
        for page in pages:
            await peer.restore(page)
        assert await waiting(peer) == list(range(11, 31))
        assert await peer.acknowledged(_ONE, "load", last.batch.id)
        assert await _pages(peer, page_bytes) == pages

    async def test_a_batch_that_is_bigger_than_a_page_has_its_own(self, store: WatermarkStore) -> None:
        """No page is so small that nothing would ever fit."""
        await log_of(store, 2)
        big = await appended(store, "x" * 5000)
        await log_of(store, 2)
        pages = await _pages(store, 1000)
        [page] = [page for page in pages if any(each.batch.id == big.id for each in page.batches)]
        assert [each.batch.seq for each in page.batches] == [3]
        assert [each.batch.seq for page in pages for each in page.batches] == [1, 2, 3, 4, 5]

    async def test_nothing_is_seen_before_the_last_page(self, store: WatermarkStore, clock: FakeClock) -> None:
        """No trigger, no consumer and no list finds a watermark that has only come in part."""
        await busy(store, clock)
        pages = await _pages(store, 1500)
        await store.forget(KEY)
        for page in pages[:-1]:
            await store.restore(page, ANNA)
            assert await store.load(KEY) is None
            assert await store.history(KEY) == []
            assert await store.due(KEY, 0.0) == []
            assert await store.remembered(KEY, "", "", 100) == []
            assert await store.subscribe(ORDERS, "load", "earliest") == []
            assert await store.claim(ORDERS, "load", "worker-9", 60.0) is None
            assert await store.consumers(ORDERS) == []
            assert await store.dead_batches(ORDERS) == []
            assert KEY not in [each.key for each in await store.list_watermarks()]
            assert await store.journal(KEY) == []
        await store.restore(pages[-1], ANNA)
        assert await store.load(KEY) == pages[0].watermark
        [entry] = await store.journal(KEY)
        assert (entry.operation, entry.who, entry.why) == ("copy", ANNA.who, ANNA.why)
        assert await store.identity() in entry.detail

    async def test_a_page_that_comes_twice_counts_once(self, store: WatermarkStore, clock: FakeClock) -> None:
        """An answer that was lost is asked for again, also that to the last page."""
        await busy(store, clock)
        before = await _view(store)
        pages = await _pages(store, 1500)
        await store.forget(KEY)
        for page in pages:
            await store.restore(page)
            await store.restore(page)
        assert await _view(store) == before

    async def test_the_first_page_begins_anew(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Whoever was stopped in the middle begins again; nothing of the first time is left over."""
        await busy(store, clock)
        stale = await _pages(store, 1500)
        await store.unsubscribe(ORDERS, "mail")
        await store.commit(await loaded(store), 8, [], NOTHING, {"a": None, "z": b"new"})
        before = await _view(store)
        pages = await _pages(store, 1500)
        await store.forget(KEY)
        for page in stale[:-1]:
            await store.restore(page)
        for page in pages:
            await store.restore(page)
        assert await _view(store) == before

    async def test_pages_do_not_come_out_of_order(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A page whose predecessor is missing is refused, also the last one; the right one may still come."""
        await busy(store, clock)
        before = await _view(store)
        pages = await _pages(store, 1500)
        await store.forget(KEY)
        with pytest.raises(ConflictError, match="orders"):
            await store.restore(pages[1])
        await store.restore(pages[0])
        for page in (pages[2], pages[-1]):
            with pytest.raises(ConflictError, match="orders"):
                await store.restore(page)
        for page in pages[1:]:
            await store.restore(page)
        assert await _view(store) == before

    async def test_a_watermark_that_is_there_is_left_alone(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Neither the first page nor the last changes one that is there, whenever it came."""
        await busy(store, clock)
        pages = await _pages(store, 1500)
        await store.commit(await loaded(store), 8, [], NOTHING)
        before = await _view(store)
        for page in (pages[0], pages[-1]):
            with pytest.raises(ConflictError, match="orders"):
                await store.restore(page)
        assert await _view(store) == before
        await store.forget(KEY)
        for page in pages[:-1]:
            await store.restore(page)
        registered = await store.register(KEY, WATCHES)
        with pytest.raises(ConflictError, match="orders"):
            await store.restore(pages[-1])
        assert await loaded(store) == registered
        assert await store.history(KEY) == []

    async def test_a_batch_is_never_in_two_watermarks(self, store: WatermarkStore) -> None:
        """A page with the id of a batch that is in the log of another watermark is refused; nothing is changed."""
        batch = await appended(store, "item")
        page = (await _pages(store, PAGE_BYTES))[0]
        renamed = [replace(each, batch=replace(each.batch, key=EU)) for each in page.batches]
        other = replace(page, watermark=replace(page.watermark, key=EU), batches=tuple(renamed))
        with pytest.raises(ConflictError, match="orders/eu"):
            await store.restore(other)
        assert await store.load(EU) is None
        assert [each.id for each in await store.history(KEY)] == [batch.id]

    async def test_a_page_that_contradicts_itself_is_refused(self, store: WatermarkStore, clock: FakeClock) -> None:
        """With something twice, with a batch of another watermark, or with one beyond the last."""
        await busy(store, clock)
        page = (await _pages(store, PAGE_BYTES))[0]
        await store.forget(KEY)
        first = page.batches[0]
        other, beyond, empty = (
            replace(first, batch=replace(first.batch, id="other", **change))
            for change in ({"key": EU}, {"seq": 8}, {"items": None})
        )
        for wrong in (
            replace(page, batches=(*page.batches, first)),
            replace(page, consumers=page.consumers * 2),
            replace(page, work=page.work * 2),
            replace(page, batches=(other,)),
            replace(page, batches=(beyond,)),
            replace(page, batches=(empty,)),
        ):
            with pytest.raises(ConflictError):
                await store.restore(wrong)
        assert await store.load(KEY) is None
        await store.restore(page)
        assert await store.load(KEY) == page.watermark

    async def test_one_that_nobody_polled_yet_moves_too(self, store: WatermarkStore) -> None:
        """With what it watches, and with the consumers that were named for it."""
        registered = await store.register(KEY, WATCHES)
        await store.subscribe(ORDERS, "load", "earliest")
        await _move(store)
        assert await loaded(store) == registered
        await appended(store, "item")
        assert await waiting(store) == [1]

    async def test_what_is_not_there_has_no_pages(self, store: WatermarkStore) -> None:
        """Nobody is told that a watermark is empty when there is none."""
        assert await store.export(WatermarkKey("nothing")) is None


async def _pages(store: WatermarkStore, page_bytes: int) -> list[Snapshot]:
    pages: list[Snapshot] = []
    place = FIRST
    while True:
        page = await store.export(KEY, place, page_bytes)
        assert page is not None
        pages.append(page)
        if page.next is None:
            return pages
        place = page.next


async def _move(store: WatermarkStore) -> None:
    pages = await _pages(store, 1500)
    await store.forget(KEY)
    for page in pages:
        await store.restore(page)


async def _view(store: WatermarkStore) -> tuple[Any, ...]:
    """All that a store shows of the watermark; how far a consumer is known to be at least, it may look up lazily."""
    statuses = [replace(each, done_seq=0) for each in await store.consumers(ORDERS)]
    return (
        await store.load(KEY),
        await store.history(KEY),
        await store.seen(KEY, 0, None, 100),
        await store.remembered(KEY, "", "", 100),
        await store.due(KEY, 0.0),
        [await store.pending(ORDERS, name) for name in ("load", "mail")],
        [await store.pending(ORDERS, name, free=True) for name in ("load", "mail")],
        statuses,
        await store.dead_batches(ORDERS),
    )
