"""What every test of the store suite needs on stage: a watermark, batches in its log, and a word for each act."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.core.batch import Batch, BatchKind, Claim, NewBatch
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import Act, ConsumerStatus
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.testing.fakes import FakeClock

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
WATCHES = Watches(source="table public.orders of shop", cursor="updated_at, id")
OTHER = Watches(source="table public.customers of shop", cursor="id")
NOTHING = PollReport()
LONG = 3600.0
EU = WatermarkKey("orders", "eu")
ANNA = Act("anna", "the warehouse was down")

Everything = tuple[Watermark | None, list[Batch], list[Batch]]


async def everything(store: WatermarkStore) -> Everything:
    """All that can be seen of the one watermark of a test."""
    return await store.load(KEY), await store.history(KEY), await store.due(KEY, LONG)


async def loaded(store: WatermarkStore, key: WatermarkKey = KEY) -> Watermark:
    """The watermark as the store has it; it must be there."""
    watermark = await store.load(key)
    assert watermark is not None
    return watermark


def slice_of(
    low: Any, high: Any, items: Sequence[Any] = (), kind: BatchKind = "added", marks: Sequence[bytes] = ()
) -> NewBatch:
    """A batch of these items that is about to be committed."""
    return NewBatch(low=low, high=high, items=items, count=len(items), kind=kind, fingerprints=marks)


async def appended(store: WatermarkStore, *items: Any, key: WatermarkKey = KEY, kind: BatchKind = "added") -> Batch:
    """Commit one batch to a watermark, registered on the way if need be; its cursor is the batch's number."""
    watermark = await store.register(key, WATCHES)
    low, high = watermark.last_seq, watermark.last_seq + 1
    _, batches = await store.commit(watermark, high, [slice_of(low, high, items, kind)], NOTHING)
    return batches[0]


async def log_of(store: WatermarkStore, count: int, key: WatermarkKey = KEY) -> list[Batch]:
    """Commit so many batches, each with one item."""
    return [await appended(store, f"item {number}", key=key) for number in range(count)]


async def confirmed(store: WatermarkStore, *batches: Batch) -> None:
    """Let Airflow have stored the event that names these batches."""
    for batch in batches:
        await store.confirm(batch.key, [batch.id])


async def told(store: WatermarkStore, *numbers: int) -> None:
    """The same for batches of the log by their sequence numbers, in one confirmation."""
    ids = {batch.seq: batch.id for batch in await store.history(KEY, limit=2000)}
    await store.confirm(KEY, [ids[number] for number in numbers])


async def taken(store: WatermarkStore, consumer: str = "load", holder: str = "worker-1", lease: float = 60.0) -> Claim:
    """Claim the next batch of the asset; there must be one."""
    claim = await store.claim(ORDERS, consumer, holder, lease)
    assert claim is not None
    return claim


async def done(store: WatermarkStore, count: int, consumer: str = "load") -> list[Claim]:
    """Claim and acknowledge so many batches."""
    claims = []
    for _ in range(count):
        claims.append(await taken(store, consumer))
        await store.acknowledge(claims[-1])
    return claims


def seqs(batches: Sequence[Batch]) -> list[int]:
    """The sequence numbers of batches, in the order given."""
    return [batch.seq for batch in batches]


async def waiting(store: WatermarkStore, consumer: str = "load") -> list[int]:
    """The sequence numbers that a consumer has not finished."""
    return seqs(await store.pending(ORDERS, consumer))


async def status_of(store: WatermarkStore, consumer: str = "load") -> ConsumerStatus:
    """How far a consumer is on the watermark; it must be known there."""
    [status] = [each for each in await store.consumers(ORDERS) if (each.key, each.consumer) == (KEY, consumer)]
    return status


async def next_claim(store: WatermarkStore, *, ordered: bool = False) -> Claim | None:
    """What a second worker gets, if there is anything to be had."""
    return await store.claim(ORDERS, "load", "worker-2", 60.0, ordered=ordered)


async def busy(store: WatermarkStore, clock: FakeClock) -> Claim:
    """Fill a watermark with one of everything; return the claim that a worker still holds."""
    watermark = await store.register(KEY, WATCHES)
    marks = [bytes([number]) * 16 for number in range(3)]
    first = slice_of(None, 1, [{"id": 1, "at": clock.now()}, "ü", None], marks=marks)
    watermark, _ = await store.commit(watermark, 1, [first], NOTHING, {"a": b"\x00\xff", "b": b""})
    await store.subscribe(ORDERS, "mail", "latest")
    kinds: list[BatchKind] = ["added", "removed", "added", "added", "baseline", "added"]
    for number, kind in enumerate(kinds, 2):
        batch = slice_of(number - 1, (number, "ü"), [number], kind)
        watermark, _ = await store.commit(watermark, (number, "ü"), [batch], PollReport(next_poll_in=30.0))
        clock.advance(1)
    await store.subscribe(ORDERS, "load", "earliest")
    await done(store, 1)
    await store.release(await taken(store), "bad row", retry_after=60.0)
    await done(store, 1)
    held = await taken(store)
    await store.release(await taken(store, holder="worker-3"), "hopeless", dead=True)
    await done(store, 1, "mail")
    await store.begin_announcement(KEY, 5, 60.0)
    await confirmed(store, *[batch for batch in await store.history(KEY) if batch.seq in (1, 2, 3)])
    await store.rewind(KEY, 7, reread=True)
    await store.report(KEY, PollReport(error="no permission", failures=2, conflicts=1, late_skipped=4, note="behind"))
    return held
