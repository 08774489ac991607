"""Operations that are done once for a key, on every database: the answer is a part of the same transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import ConflictError, StoreError
from airflow_provider_incremental.stores.once import REMEMBERED_FOR
from airflow_provider_incremental.stores.sql import tables
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing.fakes import FakeClock
from harness.tcp_proxy import proxy_to
from tests.integration.sql_store_stage import ASSET, KEY, NOTHING, WATCHES, batch_of, commit


@pytest.fixture
async def store(database: str) -> AsyncIterator[SqlStore]:
    """A store whose clock stands still."""
    store = SqlStore(url=database, clock=FakeClock())
    yield store
    await store.aclose()


async def answers(store: SqlStore) -> int:
    """How many answers are remembered."""
    async with store.database.engine.connect() as connection:
        return (await connection.execute(sa.select(sa.func.count()).select_from(tables.answers))).scalar_one()


def moving(store: SqlStore, watermark):
    """An operation that moves a watermark from a version, and answers with the new one."""

    async def work() -> str:
        return str((await commit(store, watermark)).version)

    return work


async def test_a_repeated_operation_is_answered_and_not_done_again(store):
    """The second time with the same key moves nothing, and returns what the first time did."""
    work = moving(store, await store.register(KEY, WATCHES))
    assert [await store.once("a", work) for _ in range(3)] == ["1"] * 3
    assert (await store.load(KEY)).version == 1
    assert len(await store.history(KEY)) == 1


async def test_another_key_is_another_operation(store):
    """What is done for one key says nothing about another."""
    work = moving(store, await store.register(KEY, WATCHES))
    await store.once("a", work)
    with pytest.raises(ConflictError):
        await store.once("b", work)


async def test_repeats_at_once_are_done_once(database, store):
    """Of several with one key at the same time, in two processes, one is done, and all get its answer."""
    peer = SqlStore(url=database, clock=FakeClock())
    for number in range(5):
        watermark = await store.register(KEY, WATCHES)
        work = [moving(each, watermark) for each in (store, peer)]
        done = [each.once(f"key {number}", does) for each, does in zip((store, peer), work, strict=True) for _ in "ab"]
        assert await asyncio.gather(*done) == [str(number + 1)] * 4
    await peer.aclose()
    assert [batch.seq for batch in await store.history(KEY)] == [5, 4, 3, 2, 1]


async def test_a_repeated_claim_is_the_same_batch(store):
    """Who asks again for an answer that was lost does not leave a batch behind that nobody processes."""
    watermark = await store.register(KEY, WATCHES)
    for _ in range(2):
        watermark = await commit(store, watermark)
    await store.subscribe(ASSET, "load", "earliest")

    async def work() -> str:
        claim = await store.claim(ASSET, "load", "holder", 60)
        return str(claim and claim.batch.id)

    assert await store.once("a", work) == await store.once("a", work)
    assert await store.once("b", work) != await store.once("a", work)


async def test_an_answer_that_cannot_be_kept_undoes_the_operation(store):
    """The move and its answer are there together, or neither is."""
    watermark = await store.register(KEY, WATCHES)

    async def work() -> str:
        await moving(store, watermark)()
        raise StoreError("the answer has no form")

    with pytest.raises(StoreError):
        await store.once("a", work)
    assert (await store.load(KEY)).version == 0
    assert (await store.history(KEY), await answers(store)) == ([], 0)
    assert await store.once("a", moving(store, watermark)) == "1"


async def test_old_answers_are_deleted(database):
    """The table holds the answers of the last minutes, however long the store is in use."""
    clock = FakeClock()
    store = SqlStore(url=database, clock=clock)

    async def work() -> str:
        return "done"

    for number in range(5):
        await store.once(f"key {number}", work)
    clock.advance(REMEMBERED_FOR - 61)
    await store.once("later", work)
    assert await answers(store) == 6
    clock.advance(62)
    await store.once("latest", work)
    assert await answers(store) == 2
    await store.aclose()


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_connection_that_breaks_at_the_commit_leaves_one_commit(postgres, moment, monkeypatch):
    """The network fails before or after the database commits: the operation is done once, and is answered."""
    parts = urlsplit(postgres)
    async with proxy_to(str(parts.hostname), int(parts.port)) as proxy:
        there = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}")
        store = SqlStore(url=there.geturl())
        watermark = await store.register(KEY, WATCHES)
        commits = 0
        real = type(store.database.engine.connect()).commit

        async def breaking(connection):
            nonlocal commits
            commits += 1
            if commits == 1 and moment == "before":
                await proxy.cut()
                await proxy.mend()
            await real(connection)
            if commits == 1 and moment == "after":
                await proxy.cut()
                await proxy.mend()
                raise ConnectionResetError

        monkeypatch.setattr(type(store.database.engine.connect()), "commit", breaking)
        answer = await store.once("a", moving(store, watermark))
        monkeypatch.undo()
        assert answer == "1"
        assert commits >= 1
        assert (await store.load(KEY)).version == 1
        assert [batch.seq for batch in await store.history(KEY)] == [1]
        await store.aclose()


async def test_an_operation_with_a_key_sees_batches_as_others_do(store):
    """Within the one transaction every kind of operation works: a commit of several batches, a report, a rewind."""
    watermark = await store.register(KEY, WATCHES)

    async def work() -> str:
        await store.commit(watermark, 2, [batch_of(0), batch_of(1)], NOTHING)
        await store.rewind(KEY, None, reread=True)
        return str([batch.seq for batch in await store.history(KEY)])

    assert await store.once("a", work) == "[2, 1]"
    assert (await store.load(KEY)).cursor is None
