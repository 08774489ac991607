"""The window behind the watermark: where it ends, and what counts as the same row in it."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_incremental.core.pace import StartAt
from airflow_provider_incremental.sources import sql_late
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import Database, make_orders
from tests.integration.test_sql_source_feed import Process, delivered


@pytest.fixture
def database(watched: Database) -> Database:
    """A database of each kind with an empty table ``orders``."""
    make_orders(watched)
    return watched


async def live(database: Database, store: MemoryStore, **arguments: Any) -> list[int]:
    """Let a triggerer live for a minute, and return the ids of everything that was delivered so far."""
    process = Process(database, store, **{"lateness": 7200.0, "visibility": "none", **arguments})
    await process.live(60)
    await process.die()
    return [item["id"] for item in await delivered(store)]


async def test_a_start_of_fewer_values_than_the_cursor_has_columns_bounds_the_window(database: Database) -> None:
    """Rows from before the start are not taken for late ones, also after a restart; rows from the start on are."""
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 11:59:59', '')")
    database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', ''), (5, '2026-01-31 12:30:00', '')")
    store, start = MemoryStore(clock=FakeClock()), StartAt("2026-01-31 12:00:00")
    assert await live(database, store, start=start) == [2, 5]
    database.execute("INSERT INTO orders VALUES (3, '2026-01-31 12:10:00', ''), (0, '2026-01-31 12:00:00', '')")
    database.execute("INSERT INTO orders VALUES (4, '2026-01-31 11:59:58', '')")
    assert await live(database, store, start=start) == [2, 5, 0, 3]


async def test_lateness_given_to_a_start_that_waits_begins_there(database: Database) -> None:
    """A watermark that still is a start with fewer values than the cursor has columns, before any row was found."""
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 11:59:59', '')")
    store, start = MemoryStore(clock=FakeClock()), StartAt("2026-01-31 12:00:00")
    assert await live(database, store, start=start, lateness=0.0) == []
    database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', ''), (3, '2026-01-31 12:00:00', '')")
    assert await live(database, store, limit=1) == [2, 3]


async def test_another_scale_of_a_number_repeats_nothing(served: Database) -> None:
    """A window is read again after its column's scale has changed: what was delivered from it stays delivered."""
    database = served
    database.execute("CREATE TABLE bookings (amount numeric(20, 2) PRIMARY KEY, id int NOT NULL)")
    database.execute("INSERT INTO bookings VALUES (1, 1), (2.5, 2), (3.25, 3)")
    store, watched = MemoryStore(clock=FakeClock()), {"table": "bookings", "cursor": "amount", "lateness": 10.0}
    assert await live(database, store, **watched) == [1, 2, 3]
    change = "ALTER COLUMN amount TYPE" if database.kind == "postgresql" else "MODIFY amount"
    database.execute(f"ALTER TABLE bookings {change} numeric(24, 4)", "INSERT INTO bookings VALUES (3.125, 4)")
    assert await live(database, store, **watched) == [1, 2, 3, 4]


async def test_what_earlier_releases_delivered_is_not_repeated(
    watched_postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fingerprints of numbers as the column writes them, which a store is full of, count on."""
    database = watched_postgres
    database.execute("CREATE TABLE bookings (amount numeric(20, 2) PRIMARY KEY, id int NOT NULL)")
    database.execute("INSERT INTO bookings VALUES (1, 1), (2.5, 2)")
    store, watched = MemoryStore(clock=FakeClock()), {"table": "bookings", "cursor": "amount", "lateness": 10.0}
    with monkeypatch.context() as earlier:
        earlier.setattr(sql_late, "_normal", lambda value: value)
        assert await live(database, store, **watched) == [1, 2]
    assert await live(database, store, **watched) == [1, 2]
