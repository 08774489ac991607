"""What the memory store is beyond the published suite: it outlives whoever used it, in any thread and event loop."""

from __future__ import annotations

import asyncio
import threading

from airflow_provider_incremental.core.batch import Claim, NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.memory import MemoryStore

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
WATCHES = Watches("a list", "number")


def test_it_is_a_store() -> None:
    """The type checker and the eye agree that it has the whole protocol."""
    store: WatermarkStore = MemoryStore()
    operations = {name for name in vars(WatermarkStore) if not name.startswith("_")}
    assert operations >= {"load", "commit", "due", "claim", "rewind"}
    assert all(callable(getattr(store, name)) for name in operations)


def test_every_store_has_an_identity_of_its_own() -> None:
    """Two stores are never taken for one another, unless a test says so."""
    identities = {asyncio.run(MemoryStore().identity()) for _ in range(10)}
    assert len(identities) == 10
    assert asyncio.run(MemoryStore(identity="mine").identity()) == "mine"


def test_it_outlives_its_users() -> None:
    """Closing gives nothing back: the next user finds everything, from another event loop too."""
    store = MemoryStore()

    async def first() -> None:
        watermark = await store.register(KEY, WATCHES)
        await store.commit(watermark, 1, [NewBatch(low=None, high=1, items=["a"], count=1)], PollReport())
        await store.aclose()

    async def second() -> list[object]:
        await store.subscribe(ORDERS, "load", "earliest")
        claim = await store.claim(ORDERS, "load", "worker", 60)
        assert claim is not None
        return claim.batch.items or []

    asyncio.run(first())
    assert asyncio.run(second()) == ["a"]


def test_threads_share_it() -> None:
    """Threads with event loops of their own commit and claim at once: no batch twice, no number missing."""
    store = MemoryStore()
    barrier = threading.Barrier(6)
    claims: list[Claim] = []

    async def write() -> None:
        written = 0
        while written < 50:
            watermark = await store.register(KEY, WATCHES)
            try:
                await store.commit(watermark, 1, [NewBatch(low=None, high=1, items=[1], count=1)], PollReport())
                written += 1
            except ConflictError:
                continue

    async def read(holder: str) -> None:
        await store.register(KEY, WATCHES)
        await store.subscribe(ORDERS, "load", "earliest")
        while len(claims) < 150:
            claim = await store.claim(ORDERS, "load", holder, 600)
            if claim is not None:
                claims.append(claim)
                await store.acknowledge(claim)

    def work(number: int) -> None:
        barrier.wait()
        asyncio.run(write() if number % 2 else read(f"worker {number}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(claim.batch.seq for claim in claims) == list(range(1, 151))
