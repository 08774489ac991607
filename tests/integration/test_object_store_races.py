"""Several who write to one watermark in object storage at the same time, and how many requests each makes alone."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConflictError, StoreUnavailableError
from airflow_provider_incremental.core.watermark import Watermark
from airflow_provider_incremental.testing.fakes import FakeClock
from harness.servers import S3Server
from tests.integration.object_stage import (
    DAY,
    KEY,
    NOTHING,
    ORDERS,
    WATCHES,
    Held,
    ObjectStage,
    commit,
    stage_on,
)


@pytest.fixture
async def stage(server: S3Server) -> AsyncIterator[ObjectStage]:
    """A place in a bucket of each S3 server."""
    async with stage_on(server) as stage:
        yield stage


async def test_a_commit_that_stood_still_for_days_names_nothing_that_is_gone(stage: ObjectStage):
    """Its items were deleted as garbage meanwhile: it fails, although nobody has moved the watermark."""
    clock = FakeClock(start=dt.datetime.now(dt.UTC))
    held = Held(stage.server)
    store, other = stage.store(clock=clock, client=held), stage.store(clock=clock)
    watermark = await commit(other, await other.register(KEY, WATCHES))
    await store.load(KEY)
    await store.report(KEY, NOTHING)
    held.holds = True
    committing = asyncio.create_task(commit(store, watermark))
    await held.waiting.wait()
    there = len(await stage.keys("data/"))
    clock.set_wall(2 * DAY)
    await other.prune(KEY, 10 * DAY, 99)
    assert len(await stage.keys("data/")) < there
    held.go.set()
    with pytest.raises(StoreUnavailableError):
        await committing
    assert [batch.items for batch in await other.history(KEY)] == [[0]]
    assert (await commit(other, watermark)).version == 2


async def test_of_two_commits_at_once_one_goes_in(stage: ObjectStage):
    """Both have read the same version and written their items; the second document is refused, and its items wait."""
    held = Held(stage.server)
    store, other = stage.store(client=held), stage.store()
    watermark = await store.register(KEY, WATCHES)
    held.holds = True
    losing = asyncio.create_task(commit(store, watermark))
    await held.waiting.wait()
    won = await commit(other, watermark)
    held.go.set()
    with pytest.raises(ConflictError):
        await losing
    assert await store.load(KEY) == won
    assert len(await store.history(KEY)) == 1


async def test_an_acknowledgement_while_a_commit_is_written_is_not_lost(stage: ObjectStage):
    """The commit's document is refused, and written again with what the consumer has done meanwhile."""
    held = Held(stage.server)
    store, other = stage.store(client=held), stage.store()
    watermark = await commit(store, await store.register(KEY, WATCHES))
    await other.subscribe(ORDERS, "load", "earliest")
    claim = await other.claim(ORDERS, "load", "worker", 60)
    assert claim is not None
    held.holds = True
    committing = asyncio.create_task(commit(store, watermark))
    await held.waiting.wait()
    await other.acknowledge(claim)
    held.go.set()
    assert (await committing).version == 2
    assert [batch.seq for batch in await other.pending(ORDERS, "load")] == [2]


async def test_workers_beside_a_trigger_process_every_batch_once(stage: ObjectStage):
    """They take from one watermark while it moves, each with a client of its own: nothing is lost or taken twice."""
    trigger, count, done = stage.store(), 12, list[int]()
    watermark = await trigger.register(KEY, WATCHES)
    await trigger.subscribe(ORDERS, "load", "earliest")

    async def write(watermark: Watermark) -> None:
        for _ in range(count):
            watermark = await commit(trigger, watermark)

    async def work(number: int) -> None:
        store = stage.store()
        while len(done) < count:
            claim = await store.claim(ORDERS, "load", f"worker {number}", 60)
            if claim is None:
                await asyncio.sleep(0.01)
                continue
            done.append(claim.batch.seq)
            await store.acknowledge(claim)

    await asyncio.gather(write(watermark), *(work(number) for number in range(3)))
    assert sorted(done) == list(range(1, count + 1))
    assert await trigger.pending(ORDERS, "load") == []


async def test_the_documentation_counts_the_requests(stage: ObjectStage):
    """An idle poll, a busy one, and a consumer's run cost what docs/object_storage.md says."""
    trigger, worker = stage.store(), stage.store()
    await trigger.identity()

    async def busy(watermark: Watermark) -> None:
        new = NewBatch(low=0, high=1, items=["a"], count=1)
        moved, [batch] = await trigger.commit(watermark, 1, [new], NOTHING)
        await trigger.due(KEY, 300, (), 4000)
        await trigger.begin_announcement(KEY, moved.last_seq, 0)
        await trigger.confirm(KEY, [batch.id])

    async def run() -> None:
        await worker.subscribe(ORDERS, "load", "earliest")
        claim = await worker.claim(ORDERS, "load", "worker", 60)
        assert claim is not None
        await worker.acknowledge(claim)
        assert await worker.claim(ORDERS, "load", "worker", 60) is None

    await busy(await trigger.register(KEY, WATCHES))
    await run()
    trigger.bucket.requests.clear()
    watermark = await trigger.load(KEY)
    assert watermark is not None
    await trigger.report(KEY, NOTHING)
    await trigger.due(KEY, 300)
    assert trigger.bucket.requests == {"get_object": 2, "put_object": 1}
    await trigger.load(KEY)
    trigger.bucket.requests.clear()
    worker.bucket.requests.clear()
    await trigger.load(KEY)
    await busy(watermark)
    await run()
    assert trigger.bucket.requests == {"get_object": 3, "put_object": 4}
    assert worker.bucket.requests == {"list_objects_v2": 3, "get_object": 2, "put_object": 3}
