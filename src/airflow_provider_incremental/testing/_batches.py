"""The store suite's part on the batch log: what is due, confirmation, fingerprints, history."""

from __future__ import annotations

from airflow_provider_incremental.core.batch import NewBatch, SeenBatch
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.testing._stage import (
    KEY,
    LONG,
    NOTHING,
    ORDERS,
    WATCHES,
    appended,
    confirmed,
    done,
    loaded,
    log_of,
    seqs,
    slice_of,
    taken,
    told,
)
from airflow_provider_incremental.testing.fakes import FakeClock

REDELIVER = 300.0


def mark(number: int) -> bytes:
    """A fingerprint."""
    return number.to_bytes(16, "big")


class BatchTests:
    """What a store promises of the batch log."""

    async def test_due_until_confirmed(self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock) -> None:
        """A batch is due from its commit to its confirmation, whoever asks and however late."""
        batches = await log_of(store, 3)
        clock.advance(10 * REDELIVER)
        assert await peer.due(KEY, REDELIVER) == batches
        await told(store, 1, 3)
        assert seqs(await peer.due(KEY, REDELIVER)) == [2]
        await told(store, 2)
        assert await peer.due(KEY, REDELIVER) == []

    async def test_due_of_a_watermark_that_is_not_there(self, store: WatermarkStore) -> None:
        """Nothing is due of what nobody registered, or of another watermark."""
        await log_of(store, 1)
        assert await store.due(WatermarkKey("nobody"), REDELIVER) == []
        assert await store.due(WatermarkKey("orders", "default", "other"), REDELIVER) == []

    async def test_due_leaves_out_what_is_being_announced(self, store: WatermarkStore) -> None:
        """Batches to skip are not due, and do not use up the limit."""
        await log_of(store, 5)
        assert seqs(await store.due(KEY, REDELIVER, skip=[1, 2, 4])) == [3, 5]
        assert seqs(await store.due(KEY, REDELIVER, skip={1}, limit=2)) == [2, 3]
        assert seqs(await store.due(KEY, REDELIVER, skip=range(2000), limit=2)) == []

    async def test_due_is_oldest_first_and_limited(self, store: WatermarkStore) -> None:
        """The limit cuts the newest off, not the oldest."""
        await log_of(store, 12)
        assert seqs(await store.due(KEY, REDELIVER, limit=11)) == list(range(1, 12))
        assert seqs(await store.due(KEY, REDELIVER)) == list(range(1, 13))

    async def test_due_never_names_a_baseline(self, store: WatermarkStore, clock: FakeClock) -> None:
        """What was there before the start is remembered and never announced, though a consumer is known."""
        await store.subscribe(ORDERS, "load", "earliest")
        await appended(store, kind="baseline")
        await store.subscribe(ORDERS, "load", "earliest")
        await appended(store, "a", kind="removed")
        assert seqs(await store.due(KEY, REDELIVER)) == [2]
        await told(store, 1, 2)
        clock.advance(REDELIVER)
        assert seqs(await store.due(KEY, REDELIVER)) == [2]

    async def test_due_brings_small_items_along(self, store: WatermarkStore) -> None:
        """Items come when they take at most so many bytes, to the byte; nothing comes unless asked for."""
        small = await appended(store, "a", "\u00e9")
        big = await appended(store, "b" * 100)
        for limit in (0, small.items_bytes - 1, small.items_bytes, big.items_bytes - 1, big.items_bytes):
            due = await store.due(KEY, REDELIVER, inline_bytes=limit)
            assert [each.items for each in due] == [
                ["a", "\u00e9"] if limit >= small.items_bytes else None,
                ["b" * 100] if limit >= big.items_bytes else None,
            ]
        assert [each.items for each in await store.due(KEY, REDELIVER)] == [None, None]

    async def test_due_brings_the_items_of_the_oldest(self, store: WatermarkStore) -> None:
        """Of a backlog of small batches so many come with their items as fill four at the limit, the oldest ones."""
        batches = await log_of(store, 9)
        size = batches[0].items_bytes
        due = await store.due(KEY, REDELIVER, inline_bytes=size)
        assert [each.items for each in due] == [["item 0"], ["item 1"], ["item 2"], ["item 3"], *[None] * 5]
        due = await store.due(KEY, REDELIVER, skip=[1, 2, 3], inline_bytes=size, limit=5)
        assert [each.items is not None for each in due] == [True] * 4 + [False]

    async def test_due_again_when_a_known_consumer_is_late(self, store: WatermarkStore, clock: FakeClock) -> None:
        """What was announced and not acknowledged is due again after the time given, to the second, time and again."""
        batches = await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "earliest")
        for _ in range(2):
            await confirmed(store, *batches)
            clock.advance(REDELIVER - 1)
            assert await store.due(KEY, REDELIVER) == []
            clock.advance(1)
            assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_not_due_again_when_nobody_is_known(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A DAG that only reads events is told once: nobody says that it is late."""
        await confirmed(store, *await log_of(store, 1))
        clock.advance(10 * REDELIVER)
        assert await store.due(KEY, REDELIVER) == []

    async def test_not_due_again_when_every_consumer_acknowledged(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """The last consumer to acknowledge ends the announcements of a batch."""
        await confirmed(store, *await log_of(store, 2))
        for consumer in ("load", "audit"):
            await store.subscribe(ORDERS, consumer, "earliest")
        clock.advance(REDELIVER)
        await done(store, 2, "load")
        assert seqs(await store.due(KEY, REDELIVER)) == [1, 2]
        await done(store, 1, "audit")
        assert seqs(await store.due(KEY, REDELIVER)) == [2]
        await done(store, 1, "audit")
        assert await store.due(KEY, REDELIVER) == []

    async def test_not_due_again_for_a_consumer_that_started_later(
        self, store: WatermarkStore, clock: FakeClock
    ) -> None:
        """A consumer that begins with the latest is not late with what came before it."""
        await confirmed(store, *await log_of(store, 2))
        await store.subscribe(ORDERS, "load", "latest")
        await confirmed(store, await appended(store, "c"))
        clock.advance(REDELIVER)
        assert seqs(await store.due(KEY, REDELIVER)) == [3]

    async def test_the_latest_counts_when_a_consumer_is_met(self, store: WatermarkStore, clock: FakeClock) -> None:
        """Of a watermark that is made later it gets everything, whatever was committed before its next run."""
        await log_of(store, 1)
        await store.subscribe(ORDERS, "load", "latest")
        clock.advance(1)
        later = WatermarkKey(KEY.asset_name, KEY.namespace, "made later")
        await log_of(store, 1, key=later)
        await store.subscribe(ORDERS, "new", "latest")
        for _ in range(2):
            await store.subscribe(ORDERS, "load", "latest")
        assert [each.key for each in await store.pending(ORDERS, "load")] == [later]
        assert await store.pending(ORDERS, "new") == []

    async def test_not_due_again_while_the_consumer_works(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A consumer with a valid lease on one batch of the watermark will come to the others by itself."""
        await confirmed(store, *await log_of(store, 2))
        await store.subscribe(ORDERS, "load", "earliest")
        clock.advance(REDELIVER)
        claim = await taken(store, lease=60)
        assert await store.due(KEY, REDELIVER) == []
        clock.advance(59)
        assert await store.due(KEY, REDELIVER) == []
        clock.advance(1)
        assert seqs(await store.due(KEY, REDELIVER)) == [1, 2]
        await store.renew(claim, 60)
        assert await store.due(KEY, REDELIVER) == []
        await store.release(claim)
        assert seqs(await store.due(KEY, REDELIVER)) == [1, 2]

    async def test_due_again_though_another_consumer_works(self, store: WatermarkStore, clock: FakeClock) -> None:
        """The lease of one consumer does not hide that another one is late."""
        await confirmed(store, *await log_of(store, 2))
        for consumer in ("load", "audit"):
            await store.subscribe(ORDERS, consumer, "earliest")
        clock.advance(REDELIVER)
        await taken(store, "load")
        assert seqs(await store.due(KEY, REDELIVER)) == [1, 2]
        await taken(store, "audit")
        assert await store.due(KEY, REDELIVER) == []

    async def test_due_again_though_the_consumer_works_elsewhere(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A lease on another watermark of the same asset says nothing of this one."""
        other = WatermarkKey("orders", "default", "other")
        await appended(store, "elsewhere", key=other)
        clock.advance(1)
        await confirmed(store, *await log_of(store, 1))
        await store.subscribe(ORDERS, "load", "earliest")
        clock.advance(REDELIVER)
        assert (await taken(store)).batch.key == other
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_confirm_notes_when(self, store: WatermarkStore, peer: WatermarkStore, clock: FakeClock) -> None:
        """The time of the last stored event stands in the log; other batches are not touched."""
        await log_of(store, 2)
        clock.advance(7)
        await told(store, 1)
        assert [each.announced_at for each in await peer.history(KEY)] == [None, clock.now()]
        clock.advance(7)
        await told(store, 2, 1)
        assert [each.announced_at for each in await peer.history(KEY)] == [clock.now()] * 2

    async def test_confirm_of_what_is_not_there_is_ignored(self, store: WatermarkStore) -> None:
        """A confirmation may come after a watermark was forgotten and made again, or name nothing."""
        await store.confirm(KEY, ["0" * 32])
        [before] = await log_of(store, 1)
        await store.forget(KEY)
        await log_of(store, 1)
        await store.confirm(KEY, [])
        await store.confirm(KEY, [before.id])
        assert seqs(await store.due(KEY, REDELIVER)) == [1]

    async def test_confirm_takes_many_at_once(self, store: WatermarkStore) -> None:
        """One event may name a whole backlog."""
        watermark = await store.register(KEY, WATCHES)
        backlog = [NewBatch(low=None, high=None, items=[number], count=1) for number in range(1500)]
        await store.commit(watermark, None, backlog, NOTHING)
        assert len(await store.due(KEY, REDELIVER)) == 1000
        await told(store, *range(1, 1500))
        assert seqs(await store.due(KEY, REDELIVER)) == [1500]

    async def test_seen_returns_fingerprints_newest_first(self, store: WatermarkStore) -> None:
        """Every batch between two numbers, both left out, with its upper end and its fingerprints, in pages."""
        watermark = await store.register(KEY, WATCHES)
        first = [mark(1), mark(2), bytes(16), b"\xff" * 16]
        batches = [slice_of(None, (number, "x"), ["a"], marks=first if number == 1 else []) for number in range(1, 6)]
        batches[1] = NewBatch(low=None, high=None, kind="baseline", fingerprints=[mark(3)])
        await store.commit(watermark, 5, batches, NOTHING)
        everything = await store.seen(KEY, 0, None, 100)
        assert everything == [
            SeenBatch(5, (5, "x"), ()),
            SeenBatch(4, (4, "x"), ()),
            SeenBatch(3, (3, "x"), ()),
            SeenBatch(2, None, (mark(3),)),
            SeenBatch(1, (1, "x"), tuple(first)),
        ]
        assert await store.seen(KEY, 1, 4, 100) == everything[2:4]
        assert await store.seen(KEY, 0, None, 2) == everything[:2]
        assert await store.seen(KEY, 0, 4, 2) == everything[2:4]
        assert await store.seen(KEY, 5, None, 2) == []
        assert await store.seen(WatermarkKey("nobody"), 0, None, 2) == []

    async def test_history_is_newest_first_and_paged(self, store: WatermarkStore) -> None:
        """The log is read backwards from the end, or from before a number, with items, kinds and times."""
        await log_of(store, 3)
        await appended(store, kind="baseline")
        await told(store, 2)
        log = await store.history(KEY)
        assert seqs(log) == [4, 3, 2, 1]
        assert [each.kind for each in log] == ["baseline", "added", "added", "added"]
        assert [each.items for each in log] == [[], ["item 2"], ["item 1"], ["item 0"]]
        assert await store.history(KEY, limit=2) == log[:2]
        assert await store.history(KEY, before_seq=3) == log[2:]
        assert await store.history(KEY, before_seq=4, limit=1) == log[1:2]
        assert await store.history(KEY, before_seq=1) == []
        assert await store.history(WatermarkKey("nobody")) == []

    async def test_the_log_does_not_change_when_the_watermark_is_rewound(self, store: WatermarkStore) -> None:
        """A rewind moves a cursor: batches stay as they are, confirmed or due."""
        await log_of(store, 2)
        await told(store, 1)
        before = await store.history(KEY)
        await store.rewind(KEY, None, reread=True)
        assert await store.history(KEY) == before
        assert seqs(await store.due(KEY, REDELIVER)) == [2]
        assert (await loaded(store)).last_seq == 2

    async def test_long_is_long(self, store: WatermarkStore, clock: FakeClock) -> None:
        """A redelivery time longer than any deployment lives is a number like any other."""
        await confirmed(store, *await log_of(store, 1))
        await store.subscribe(ORDERS, "load", "earliest")
        clock.advance(LONG)
        assert await store.due(KEY, 10 * 365 * 24 * LONG) == []
