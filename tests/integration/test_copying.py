"""Watermarks move between real stores as they are, whatever stops the copy on its way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.core.copying import contents_of, copy, signs_of_life, to_copy
from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.snapshot import FIRST
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import PollReport, WatermarkKey
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.testing._stage import (
    EU,
    KEY,
    NOTHING,
    ORDERS,
    WATCHES,
    appended,
    busy,
    loaded,
    slice_of,
    taken,
    waiting,
)
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock
from harness.servers import DatabaseServer
from tests.databases import migrated
from tests.integration.object_stage import stage_on
from tests.served import serving

ANNA = Act("anna", "the file is too slow")
SMALL = 1500
"""Bytes of a page, so that one watermark takes several."""
ROUTES = [
    ("sqlite", "postgres"),
    ("postgres", "api"),
    ("memory", "mariadb"),
    ("mariadb", "sqlite"),
    ("api", "memory"),
    ("sqlite", "objects"),
    ("objects", "memory"),
]

Opening = Callable[[str], Awaitable[WatermarkStore]]


@pytest.fixture
def clock() -> FakeClock:
    """The time of all stores."""
    return FakeClock()


@pytest.fixture
async def opened(
    request: pytest.FixtureRequest,
    postgres_server: DatabaseServer,
    mariadb_server: DatabaseServer,
    clock: FakeClock,
    tmp_path: Path,
) -> AsyncIterator[Opening]:
    """Opens an empty store of a kind."""
    async with contextlib.AsyncExitStack() as closing:

        async def sql(url: str) -> WatermarkStore:
            store = SqlStore(url=await migrated(url), clock=clock)
            closing.push_async_callback(store.aclose)
            return store

        async def on(server: DatabaseServer) -> WatermarkStore:
            url = server.create_database()
            closing.callback(server.drop_database, url)
            return await sql(url)

        async def store(kind: str) -> WatermarkStore:
            if kind == "api":
                served = await closing.enter_async_context(serving(await on(postgres_server), tmp_path))
                client = api_store(served.url)
                closing.push_async_callback(client.aclose)
                return client
            if kind == "objects":
                stage = await closing.enter_async_context(stage_on(request.getfixturevalue("s3_server")))
                return stage.store(clock=clock, page=1)
            if kind == "memory":
                return MemoryStore(clock=clock)
            if kind == "sqlite":
                return await sql(f"sqlite:///{tmp_path}/store.db")
            return await on(postgres_server if kind == "postgres" else mariadb_server)

        yield store


@pytest.mark.parametrize(("here", "there"), ROUTES, ids=["-to-".join(route) for route in ROUTES])
async def test_a_store_moves(opened: Opening, clock: FakeClock, here: str, there: str) -> None:
    """Every watermark is there as it was, a second time changes nothing, and work goes on where it stopped."""
    source, target = await opened(here), await opened(there)
    held = await busy(source, clock)
    await source.register(EU, WATCHES)
    for _ in range(3):
        await appended(source, {"size": 1.5}, "x" * 2000, key=WatermarkKey("returns"))
    keys = [each.key for each in await to_copy(source)]
    assert keys == [KEY, EU, WatermarkKey("returns")]
    assert [(await copy(source, target, key, None, dry_run=True)).result for key in keys] == ["to copy"] * 3
    assert await target.list_watermarks() == []
    outcomes = [await copy(source, target, key, ANNA, page_bytes=SMALL) for key in keys]
    assert [each.result for each in outcomes] == ["copied"] * 3
    assert outcomes[0].target is not None
    assert outcomes[0].target.counts == {"pieces": 2, "batches": 7, "consumers": 2, "work": 6}
    assert [await contents_of(target, key) for key in keys] == [await contents_of(source, key) for key in keys]
    assert await target.list_watermarks() == await source.list_watermarks()
    assert await target.consumers() == await source.consumers()
    assert [(await copy(source, target, key, ANNA)).result for key in keys] == ["there already"] * 3
    await target.acknowledge(held)
    clock.advance(100)
    assert await waiting(target) == [2, 7]
    assert (await taken(target)).attempt == 2
    moved, _ = await target.commit(await loaded(source), 8, [slice_of(7, 8, ["new"])], NOTHING)
    assert moved.last_seq == 8
    assert (await copy(source, target, KEY, ANNA)).result == "differs"


async def test_whoever_is_killed_at_any_write_begins_again(opened: Opening, clock: FakeClock) -> None:
    """Killed before or after each page: nothing is seen of what came in part, and the next run ends the same way."""
    source, target = await opened("sqlite"), await opened("postgres")
    await busy(source, clock)
    writes = 0
    for when in ("before", "after"):
        for number in range(1, 20):
            dying = CrashingStore(target)
            dying.before["restore"] = _at(dying, number, when)
            try:
                outcome = await copy(source, dying, KEY, ANNA, page_bytes=SMALL)
            except ProcessDied:
                whole = when == "after" and dying.calls.count("restore") == writes
                assert (await target.load(KEY) is None) is not whole
                outcome = await copy(source, target, KEY, ANNA, page_bytes=SMALL)
                assert outcome.result == ("there already" if whole else "copied")
            else:
                writes = dying.calls.count("restore")
                assert number == writes + 1 > 3
            assert outcome.source == outcome.target == await contents_of(source, KEY)
            assert [each.operation for each in await target.journal(KEY, 1)] == ["copy"]
            await target.forget(KEY)
            if number > writes > 0:
                break
        else:
            pytest.fail("the copy never ended")


def _at(store: CrashingStore, number: int, when: str) -> Callable[[], Awaitable[None]]:
    """Kill the process at that write."""

    async def strike() -> None:
        if store.calls.count("restore") == number:
            if when == "before":
                raise ProcessDied
            store.die("after", "restore")

    return strike


async def test_what_has_moved_on_is_left_alone(opened: Opening, clock: FakeClock) -> None:
    """On either side: in the other store since an earlier copy, or here while it is copied."""
    source, target = await opened("sqlite"), await opened("postgres")
    await busy(source, clock)
    assert (await copy(source, target, KEY, ANNA)).good
    claim = await taken(target, "mail")
    there = await contents_of(target, KEY)
    for dry_run in (True, False):
        outcome = await copy(source, target, KEY, ANNA, dry_run=dry_run)
        assert (outcome.result, outcome.good) == ("differs", False)
        assert outcome.target == there == await contents_of(target, KEY)
    await target.release(claim)
    await target.forget(KEY)
    busy_source = CrashingStore(source)
    moved = False

    async def move() -> None:
        nonlocal moved
        if busy_source.calls.count("export") == 2 and not moved:
            moved = True
            await source.commit(await loaded(source), 8, [slice_of(7, 8, ["late"])], NOTHING)

    busy_source.before["export"] = move
    outcome = await copy(busy_source, target, KEY, ANNA)
    assert (outcome.result, outcome.good) == ("changed meanwhile", False)


async def test_a_trigger_that_comes_too_early_keeps_its_watermark(opened: Opening, clock: FakeClock) -> None:
    """It has registered in the new store while the copy was under way: nothing is put over that."""
    source, target = await opened("sqlite"), await opened("mariadb")
    await busy(source, clock)
    early = CrashingStore(target)

    async def register() -> None:
        if early.calls.count("restore") == 2:
            await target.register(KEY, WATCHES)

    early.before["restore"] = register
    assert (await copy(source, early, KEY, ANNA, page_bytes=SMALL)).result == "differs"
    assert (await loaded(target)).version == 0
    assert await target.history(KEY) == []


async def test_many_batches(opened: Opening) -> None:
    """A log of many pages arrives in whole, in the order of its numbers."""
    source, target = await opened("sqlite"), await opened("postgres")
    watermark = await source.register(KEY, WATCHES)
    for _ in range(10):
        new = [slice_of(None, number, [{"number": number, "text": "x" * 400}] * 5) for number in range(200)]
        watermark, _ = await source.commit(watermark, 1, new, NOTHING)
    await source.subscribe(ORDERS, "load", "earliest")
    outcome = await copy(source, target, KEY, ANNA)
    assert outcome.result == "copied"
    log = await target.history(KEY, None, 5000)
    assert [each.seq for each in log] == list(range(2000, 0, -1))
    page = await source.export(KEY, FIRST)
    assert page is not None
    assert page.next is not None


async def test_the_last_page_may_take_long(opened: Opening, clock: FakeClock) -> None:
    """It touches every row of a log that may have millions, so that the limit of other operations is not its own."""
    source, target = await opened("sqlite"), await opened("postgres")
    await busy(source, clock)
    page = await source.export(KEY)
    assert page is not None
    assert isinstance(target, SqlStore)
    target.database._timeout = 0.2
    async with target.database.engine.connect() as other:
        await other.exec_driver_sql("LOCK TABLE asset_watermark_claims IN SHARE MODE")
        restoring = asyncio.create_task(target.restore(page))
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'asset_watermark_claims'::regclass"
        while not (await other.exec_driver_sql(waits)).scalar():
            assert not restoring.done()
        done, _ = await asyncio.wait([restoring], timeout=0.5)
        assert not done
        await other.rollback()
    await restoring
    assert await target.load(KEY) == page.watermark


async def test_who_is_still_at_work(opened: Opening, clock: FakeClock) -> None:
    """A trigger that polls, and a worker that holds a batch, are seen until they would have been heard of again."""
    source = await opened("sqlite")
    watermark = await source.register(KEY, WATCHES)
    assert await signs_of_life(source, watermark, clock.now()) == []
    watermark, _ = await source.commit(watermark, 1, [slice_of(0, 1, ["a"])], PollReport(next_poll_in=90.0))
    await source.subscribe(ORDERS, "load", "earliest")
    await taken(source, lease=300.0)
    signs = await signs_of_life(source, watermark, clock.now())
    assert [each.split()[:3] for each in signs] == [["it", "was", "polled"], ["load", "has", "1"]]
    clock.advance(179)
    assert len(await signs_of_life(source, watermark, clock.now())) == 2
    clock.advance(2)
    assert len(await signs_of_life(source, watermark, clock.now())) == 1
    clock.advance(120)
    assert await signs_of_life(source, watermark, clock.now()) == []


async def test_a_value_of_a_newer_release_is_not_copied_blindly(opened: Opening, clock: FakeClock) -> None:
    """What this release cannot read it cannot compare: it says which row it is, and copies nothing."""
    source, target = await opened("sqlite"), MemoryStore(clock=clock)
    await busy(source, clock)
    await _spoil(source)
    with pytest.raises(StoreError, match="batch 3 of watermark orders"):
        await copy(source, target, KEY, ANNA)
    assert await target.load(KEY) is None


async def _spoil(store: Any) -> None:
    async def work(connection: Any) -> None:
        statement = "UPDATE asset_watermark_batches SET items = '[{\"$vector\": 1}]' WHERE seq = 3"
        await connection.exec_driver_sql(statement)

    await store.database.write(work, repeatable=True)
