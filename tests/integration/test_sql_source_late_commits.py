"""Rows that commit late, where no transactions are looked at: found while ``settle`` covers them, else lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa

from tests.integration.sql_stage import Database, Watcher, make_orders


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
