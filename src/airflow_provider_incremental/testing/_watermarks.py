"""The store suite's part on watermarks: identity, registration, the compare-and-swap, status, forget."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from airflow_provider_incremental.core.errors import (
    ConflictError,
    WatchesAnotherSourceError,
)
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey, WatermarkStatus
from airflow_provider_incremental.testing._stage import (
    KEY,
    NOTHING,
    ORDERS,
    OTHER,
    WATCHES,
    appended,
    done,
    everything,
    loaded,
    log_of,
    slice_of,
)
from airflow_provider_incremental.testing.fakes import FakeClock

LOOK_ALIKES = (
    "orders",
    "Orders",
    "ORDERS",
    "orders ",
    " orders",
    "orders\t",
    "caf\u00e9",
    "cafe\u0301",
    "stra\u00dfe",
    "strasse",
    "\U0001f600",
    "or%ers",
    "or_ers",
    "or'ers\\",
    "x" * 1500,
    "x" * 1499 + "y",
    "\U0001f600" * 1500,
)


class WatermarkTests:
    """What a store promises of watermarks."""

    async def test_identity_is_the_same_for_every_one_who_opens_the_store(
        self, store: WatermarkStore, peer: WatermarkStore
    ) -> None:
        """The identity of a store is one text that never changes."""
        identity = await store.identity()
        assert isinstance(identity, str)
        assert identity
        assert [await store.identity(), await peer.identity()] == [identity, identity]

    async def test_load_of_what_nobody_registered(self, store: WatermarkStore) -> None:
        """A watermark that nobody registered is None, not a watermark at its start."""
        assert await store.load(KEY) is None

    async def test_register_makes_a_watermark_at_version_0(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """A new watermark has no cursor, no batch, no poll, and is not started."""
        made = await store.register(KEY, WATCHES)
        assert made == Watermark(key=KEY, cursor=None, version=0, last_seq=0, watches=WATCHES, created_at=clock.now())
        assert not made.started
        assert await peer.load(KEY) == made

    async def test_register_again_changes_nothing(self, store: WatermarkStore) -> None:
        """A trigger that comes back finds the watermark where it was."""
        await appended(store, "a")
        before = await loaded(store)
        assert await store.register(KEY, WATCHES) == before
        assert await store.load(KEY) == before

    @pytest.mark.parametrize("given", [OTHER, Watches(WATCHES.source, "id"), Watches("elsewhere", WATCHES.cursor)])
    async def test_register_of_another_source_is_refused(self, store: WatermarkStore, given: Watches) -> None:
        """A watermark of one source is never taken over by another source or another cursor."""
        await appended(store, "a")
        before = await everything(store)
        with pytest.raises(WatchesAnotherSourceError):
            await store.register(KEY, given)
        assert await everything(store) == before

    async def test_register_of_another_source_before_anything_was_read(
        self, store: WatermarkStore, peer: WatermarkStore
    ) -> None:
        """A source that was never read, such as a table's name with a typo, is given up for the one that comes."""
        await store.register(KEY, OTHER)
        await store.report(KEY, PollReport(error="no such table", failures=1))
        registered = await peer.register(KEY, WATCHES)
        assert (registered.watches, registered.version, registered.status.failures) == (WATCHES, 0, 1)
        await store.commit(registered, None, [], NOTHING)
        with pytest.raises(WatchesAnotherSourceError):
            await store.register(KEY, OTHER)

    @pytest.mark.parametrize("given", [OTHER, Watches(WATCHES.source, "id"), Watches("elsewhere", WATCHES.cursor)])
    async def test_commit_of_a_source_that_was_given_up(self, store: WatermarkStore, given: Watches) -> None:
        """The first poll of a source that is not watched any more is a conflict, and moves nothing."""
        polling = await store.register(KEY, WATCHES)
        await store.register(KEY, given)
        before = await everything(store)
        with pytest.raises(ConflictError):
            await store.commit(polling, 1, [slice_of(None, 1, ["a"])], NOTHING)
        assert await everything(store) == before

    async def test_register_records_what_is_watched_when_nobody_knew(self, store: WatermarkStore) -> None:
        """A watermark that was set by hand belongs to the first trigger that comes."""
        set_by_hand = await store.rewind(KEY, 7, reread=False)
        assert set_by_hand.watches is None
        registered = await store.register(KEY, OTHER)
        assert (registered.watches, registered.cursor, registered.version) == (OTHER, 7, set_by_hand.version)
        with pytest.raises(WatchesAnotherSourceError):
            await store.register(KEY, WATCHES)

    async def test_register_at_once_makes_one_watermark(self, store: WatermarkStore, peer: WatermarkStore) -> None:
        """Triggers that start together share one watermark, and none of them fails."""
        made = await asyncio.gather(*(each.register(KEY, WATCHES) for each in [store, peer] * 4))
        assert {each.version for each in made} == {0}
        assert len(await store.list_watermarks()) == 1

    async def test_report_says_how_the_last_poll_went(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Error, failures and note are the last poll's; conflicts and late items add up; nothing moves."""
        made = await store.register(KEY, WATCHES)
        await store.report(
            KEY, PollReport(error="boom", failures=1, conflicts=1, late_skipped=2, note="first", next_poll_in=9.5)
        )
        first = clock.now()
        watermark = await loaded(store)
        assert watermark.status == WatermarkStatus(
            last_poll_at=first,
            next_poll_at=first + dt.timedelta(seconds=9.5),
            last_error="boom",
            last_error_at=first,
            failures=1,
            conflicts=1,
            late_skipped=2,
            note="first",
        )
        clock.advance(30)
        await store.report(KEY, PollReport(conflicts=2, late_skipped=5))
        watermark = await loaded(store)
        assert watermark.status == WatermarkStatus(
            last_poll_at=clock.now(), last_error_at=first, conflicts=3, late_skipped=7
        )
        assert (watermark.version, watermark.cursor, watermark.moved_at) == (made.version, None, None)

    async def test_report_does_not_disturb_a_poll_under_way(self, store: WatermarkStore) -> None:
        """A commit from the version that was loaded before a report is no conflict."""
        watermark = await store.register(KEY, WATCHES)
        await store.report(KEY, PollReport(error="boom", failures=1))
        moved, _ = await store.commit(watermark, 1, [], NOTHING)
        assert moved.version == 1

    async def test_report_of_what_nobody_registered_is_ignored(self, store: WatermarkStore) -> None:
        """A report alone makes no watermark."""
        await store.report(KEY, PollReport(error="boom", failures=1))
        assert await store.load(KEY) is None

    async def test_report_keeps_long_and_foreign_text(self, store: WatermarkStore) -> None:
        """Errors come from everywhere: quotes, emoji and a thousand characters are kept."""
        text = 'it\'s "quoted" \\ %s {x} \U0001f600 ' * 30
        await store.register(KEY, WATCHES)
        await store.report(KEY, PollReport(error=text, failures=1, note=text))
        status = (await loaded(store)).status
        assert (status.last_error, status.note) == (text, text)

    async def test_report_takes_text_that_no_database_has(self, store: WatermarkStore) -> None:
        """A NUL or half a character in an error costs that character at most, never the report."""
        await store.register(KEY, WATCHES)
        await store.report(KEY, PollReport(error="bad \x00 byte", failures=1, note="half \ud800 a character"))
        status = (await loaded(store)).status
        assert status.failures == 1
        assert (status.last_error or "").startswith("bad ")
        assert (status.note or "").endswith(" a character")

    async def test_names_that_look_alike_are_apart(self, store: WatermarkStore) -> None:
        """Case, spaces, unicode forms and wildcards set names apart, up to 1,500 characters."""
        keys = [WatermarkKey(name) for name in LOOK_ALIKES]
        for key in keys:
            await appended(store, key.asset_name, key=key)
        for key in keys:
            assert (await loaded(store, key)).last_seq == 1
            assert [each.items for each in await store.history(key)] == [[key.asset_name]]
            assert [each.key for each in await store.list_watermarks(Selector(key.asset_name))] == [key]
            assert await store.subscribe(Selector(key.asset_name), "load", "earliest") == [key]
        assert {each.key for each in await store.list_watermarks()} == set(keys)

    async def test_namespaces_and_keys_that_look_alike_are_apart(self, store: WatermarkStore) -> None:
        """Namespace and key are as exact as the asset's name."""
        names = ["default", "Default", "default ", "caf\u00e9", "cafe\u0301", "\U0001f600" * 250]
        keys = [WatermarkKey("orders", name, "k") for name in names] + [
            WatermarkKey("orders", "n", name) for name in names
        ]
        for key in keys:
            await store.register(key, WATCHES)
        for key in keys:
            chosen = await store.list_watermarks(Selector("orders", key.namespace, key.key))
            assert [each.key for each in chosen] == [key]

    async def test_list_is_in_order_of_name(self, store: WatermarkStore) -> None:
        """Watermarks are listed by asset name, namespace and key, with their status, as load returns them."""
        names = [("b", "x", "x"), ("a", "y", "x"), ("a", "x", "y"), ("a", "x", "x"), ("c", "a", "a")]
        for name in names:
            await appended(store, "item", key=WatermarkKey(*name))
        listed = await store.list_watermarks()
        assert [each.key for each in listed] == [WatermarkKey(*name) for name in sorted(names)]
        assert listed == [await store.load(each.key) for each in listed]

    async def test_list_selects_assets_namespaces_and_keys(self, store: WatermarkStore) -> None:
        """A selector means all watermarks of an asset, or those of a namespace, of a key, or of both."""
        names = [(asset, space, key) for asset in "ab" for space in "mn" for key in "xy"]
        for name in names:
            await store.register(WatermarkKey(*name), WATCHES)
        for namespace in (None, "m"):
            for key in (None, "y"):
                listed = await store.list_watermarks(Selector("a", namespace, key))
                wanted = [n for n in names if n[0] == "a" and n[1] in (namespace or "mn") and n[2] in (key or "xy")]
                assert [each.key for each in listed] == [WatermarkKey(*name) for name in wanted]
        assert await store.list_watermarks(Selector("nobody")) == []

    async def test_a_poll_from_before_a_forget_commits_nothing(
        self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock
    ) -> None:
        """A watermark that was made again under the same name is another one, though their versions are equal."""
        polling = [await store.register(KEY, WATCHES)]
        await appended(store, "a")
        polling.append(await loaded(store))
        for watermark in polling:
            await peer.forget(KEY)
            clock.advance(1)
            again = await peer.register(KEY, WATCHES)
            while again.version < watermark.version:
                again, _ = await peer.commit(again, 0, [], NOTHING)
            with pytest.raises(ConflictError):
                await store.commit(watermark, 9, [slice_of(0, 9, ["lost"])], NOTHING)
            assert await store.load(KEY) == again
            assert await store.history(KEY) == []

    async def test_forget_deletes_everything_of_one_watermark(self, store: WatermarkStore) -> None:
        """Batches, claims and consumers go with it; the neighbour stays; who comes back starts anew."""
        other = WatermarkKey("orders", "default", "other")
        await log_of(store, 2)
        await appended(store, "kept", key=other)
        await store.subscribe(ORDERS, "load", "earliest")
        await done(store, 1)
        assert await store.forget(KEY) is True
        assert await store.forget(KEY) is False
        assert await everything(store) == (None, [], [])
        assert [each.key for each in await store.list_watermarks()] == [other]
        assert [each.key for each in await store.pending(ORDERS, "load")] == [other]
        assert (await store.register(KEY, OTHER)).version == 0
        await store.rewind(KEY, 0, reread=False, rewatch=True)
        assert (await appended(store, "new")).seq == 1
        assert [each.key for each in await store.pending(ORDERS, "load")] == [other]
