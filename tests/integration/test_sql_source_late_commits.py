"""Rows that commit late, where no transactions are looked at: found while ``settle`` covers them, else lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import Database, Watcher, make_orders
from tests.integration.test_sql_source_feed import Process, delivered


@pytest.fixture(params=["postgresql", "mariadb"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database of each kind with an empty table ``orders``."""
    made = Database(request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database"))
    make_orders(made)
    yield made
    await made.aclose()


def now(database: Database) -> str:
    return "localtimestamp" if database.kind == "postgresql" else "NOW(6)"


async def test_38_a_row_that_commits_within_settle_is_found(database: Database) -> None:
    """One transaction stamps its row first and commits last; with settle longer than it, both rows come, in order."""
    watcher = Watcher(lambda: database.source(settle=5.0, visibility="none"))
    with database.engine().connect() as slow:
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, 'late')"))
        database.execute(f"INSERT INTO orders VALUES (2, {now(database)}, 'early')")
        assert await watcher.poll() == []
        slow.commit()
    async with asyncio.timeout(60):
        while not watcher.ids:
            await watcher.poll()
            await asyncio.sleep(0.05)
    await watcher.drain()
    assert watcher.ids == [1, 2]


async def test_38_without_settle_a_row_that_commits_late_is_lost(postgres_database: str) -> None:
    """What the source promises no more than this: the watermark has passed the stamp before its row could be seen."""
    database = Database(postgres_database)
    make_orders(database)
    watcher = Watcher(lambda: database.source(settle=0.0, visibility="none"))
    with database.engine().connect() as slow:
        slow.execute(sa.text("INSERT INTO orders VALUES (1, localtimestamp, 'late')"))
        database.execute("INSERT INTO orders VALUES (2, localtimestamp, 'early')")
        await watcher.drain()
        slow.commit()
    await watcher.drain()
    assert watcher.ids == [2]
    await database.aclose()


async def test_38_with_lateness_rows_that_commit_late_are_found_with_ties_and_limits(database: Database) -> None:
    """Settle and lateness together: many late rows of one stamp, a limit, restarts; each row comes once."""
    store = MemoryStore(clock=FakeClock())
    arguments = {"visibility": "none", "lateness": 3600.0, "limit": 2}
    with database.engine().connect() as slow:
        for number in (1, 3, 5):
            slow.execute(sa.text(f"INSERT INTO orders VALUES ({number}, {now(database)}, 'late')"))
        for number in (2, 4, 6):
            database.execute(f"INSERT INTO orders VALUES ({number}, {now(database)}, 'early')")
        await asyncio.sleep(1.1)  # the edge of MariaDB's timestamps
        first = Process(database, store, **arguments)
        await first.live(60)
        await first.die()
        assert await ids(store) == [2, 4, 6]
        slow.commit()
    for _ in range(3):
        process = Process(database, store, **arguments)
        await process.live(60)
        await process.die()
    assert sorted(await ids(store)) == [1, 2, 3, 4, 5, 6]


async def test_lateness_that_is_given_later_repeats_nothing(database: Database) -> None:
    """What was delivered without a fingerprint lies in the window, and does not come again; nor what is late there."""
    store = MemoryStore(clock=FakeClock())
    for number, lateness in enumerate((0.0, 1000.0, 1000.0, 0.0, 1000.0), start=1):
        database.execute(f"INSERT INTO orders VALUES ({number * 10}, '2026-01-31 12:00:00', '')")
        process = Process(database, store, cursor="id", lateness=lateness, visibility="none")
        await process.live(60)
        await process.die()
    assert await ids(store) == [10, 20, 30, 40, 50]
    for late in (35, 45):
        database.execute(f"INSERT INTO orders VALUES ({late}, '2026-01-31 12:00:00', '')")
    database.execute("INSERT INTO orders VALUES (55, '2026-01-31 12:00:00', '')")
    process = Process(database, store, cursor="id", lateness=1000.0, visibility="none")
    await process.live(60)
    database.execute("INSERT INTO orders VALUES (52, '2026-01-31 12:00:00', '')")
    await process.live(60)
    await process.die()
    assert await ids(store) == [10, 20, 30, 40, 50, 45, 55, 52]


async def ids(store: MemoryStore) -> list[int]:
    """Return the ids of everything that was delivered, in order."""
    return [item["id"] for item in await delivered(store)]
