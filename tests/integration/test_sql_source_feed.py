"""A SQL source driven by a feed: started, restarted, failing and raced, every row is in the batch log once."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any, Literal

import pytest

from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings, StartAt
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import Database, make_orders

KEY = WatermarkKey("orders")
NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture
def database(watched: Database) -> Database:
    """A database of each kind with an empty table ``orders``."""
    make_orders(watched)
    return watched


class Process:
    """One life of a triggerer with one watcher, on a clock of its own over a store that outlives it."""

    def __init__(self, database: Database, store: MemoryStore, **settings: Any) -> None:
        self.clock = settings.pop("clock", None) or FakeClock()
        limit, start = settings.pop("limit", 1000), settings.pop("start", "earliest")
        self.feed = Feed(
            key=KEY,
            store=store,
            source=database.source(**settings),
            settings=_settings(start, limit),
            clock=self.clock,
        )
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async for announcement in self.feed.announcements():
            await self.feed.confirm(announcement)

    async def live(self, seconds: float) -> None:
        """Let time pass for it."""
        await self.clock.run_for(seconds)

    async def die(self) -> None:
        """End it, wherever it is."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _settings(start: Literal["earliest", "latest"] | StartAt, limit: int) -> FeedSettings:
    pace = {"poll_interval": 10.0, "announce_interval": 10.0, "redeliver_after": 300.0}
    return FeedSettings(start=start, limit=limit, confirm_after=None, **pace)


async def delivered(store: MemoryStore) -> list[Any]:
    """Return the items of the whole batch log, oldest first."""
    batches = await store.history(KEY, limit=10_000)
    return [item for batch in reversed(batches) for item in batch.items or ()]


def insert(database: Database, *numbers: int) -> None:
    database.insert("orders", [{"id": each, "updated_at": NOON.isoformat(" "), "name": ""} for each in numbers])


async def test_latest_on_an_empty_table_delivers_what_comes_after_a_restart(database: Database) -> None:
    """The baseline of a table without rows is kept: the first row after a restart is new, and delivered."""
    store = MemoryStore(clock=FakeClock())
    first = Process(database, store, start="latest")
    await first.live(1)
    await first.die()
    watermark = await store.load(KEY)
    assert watermark is not None
    assert watermark.started
    insert(database, 1)
    second = Process(database, store, start="latest")
    await second.live(60)
    await second.die()
    assert [item["id"] for item in await delivered(store)] == [1]


async def test_latest_skips_what_is_there_and_delivers_what_comes(database: Database) -> None:
    """Rows from before the start stay where they are."""
    store = MemoryStore(clock=FakeClock())
    insert(database, 1, 2)
    process = Process(database, store, start="latest")
    await process.live(1)
    insert(database, 3)
    await process.live(60)
    await process.die()
    assert [item["id"] for item in await delivered(store)] == [3]


async def test_a_start_given_as_text_begins_there(database: Database) -> None:
    """A user's time is read in the column's type at the first poll, and the rows from then on are delivered."""
    store = MemoryStore(clock=FakeClock())
    insert(database, 1)
    later = (NOON + dt.timedelta(hours=1)).isoformat(" ")
    database.insert("orders", [{"id": 2, "updated_at": later, "name": ""}])
    process = Process(database, store, start=StartAt("2026-01-31T13:00"))
    await process.live(60)
    await process.die()
    assert [item["id"] for item in await delivered(store)] == [2]


async def test_restarts_with_a_limit_of_one_deliver_each_row_once(database: Database) -> None:
    """Rows of one stamp, one a batch, killed again and again: each is in the log once, in order."""
    store = MemoryStore(clock=FakeClock())
    insert(database, *range(7))
    for life in range(20):
        process = Process(database, store, limit=1)
        for _ in range(life % 4 + 1):
            await asyncio.sleep(0.002 * life)
        await process.die()
    process = Process(database, store, limit=1)
    await process.live(60)
    await process.die()
    assert [item["id"] for item in await delivered(store)] == list(range(7))


async def test_two_watchers_of_one_watermark_deliver_each_row_once(database: Database) -> None:
    """Two processes poll at once while rows are written: conflicts are dropped polls, never gaps or repetitions."""
    store = MemoryStore(clock=FakeClock())
    clock = FakeClock()
    processes = [Process(database, store, limit=3, clock=clock) for _ in range(2)]
    for number in range(0, 60, 4):
        insert(database, *range(number, number + 4))
        await clock.run_for(10)
    await clock.run_for(30)
    for process in processes:
        await process.die()
    assert [item["id"] for item in await delivered(store)] == list(range(60))


async def test_an_error_is_kept_as_the_status_and_over_when_its_cause_is(database: Database) -> None:
    """A table that is not there: failures are counted, the watermark stays, and the rows come when it is there."""
    store = MemoryStore(clock=FakeClock())
    database.execute("DROP TABLE orders")
    process = Process(database, store)
    await process.live(25)
    watermark = await store.load(KEY)
    assert watermark is not None
    assert watermark.status.failures >= 2
    assert "orders" in str(watermark.status.last_error)
    assert watermark.version == 0
    make_orders(database)
    insert(database, 1)
    await process.live(300)
    await process.die()
    watermark = await store.load(KEY)
    assert watermark is not None
    assert (watermark.status.failures, watermark.status.last_error) == (0, None)
    assert [item["id"] for item in await delivered(store)] == [1]


async def test_odd_values_go_through_the_log_and_lose_nothing(postgres_database: str) -> None:
    """Times to the microsecond, bytes, exact numbers, UUIDs, NaN and 10 MB are in the log as they are in the row."""
    database = Database(postgres_database)
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, at timestamptz, data bytea, price numeric, key uuid, ratio float8, "
        "words text)",
        "INSERT INTO orders VALUES (1, '2026-01-31 12:00:00.000001Z', '\\x00ff', 1.10, "
        "'6f9619ff-8b86-d011-b42d-00c04fc964ff', 'NaN', repeat('x', 10000000))",
    )
    store = MemoryStore(clock=FakeClock())
    process = Process(database, store, cursor="id")
    await process.live(60)
    await process.die()
    (item,) = await delivered(store)
    assert math.isnan(item.pop("ratio"))
    assert item == {
        "id": 1,
        "at": NOON.replace(microsecond=1, tzinfo=dt.UTC),
        "data": b"\x00\xff",
        "price": Decimal("1.10"),
        "key": uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        "words": "x" * 10_000_000,
    }
    assert str(item["price"]) == "1.10"
    await database.aclose()
