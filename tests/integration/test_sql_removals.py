"""Rows that are gone, on each server: their keys come in batches of their own, once, over restarts and limits."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_key_reader import KeyReader
from airflow_provider_incremental.sources.sql_removal_arguments import check_removals, parted
from airflow_provider_incremental.sources.sql_removals import Removals
from airflow_provider_incremental.sources.sql_source import SqlSource
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import NOON, Database, make_orders, order
from tests.integration.sql_watching import KEY, Start
from tests.loop_share import loop_share
from tests.property.removals_machine import Pieces


async def test_a_row_that_is_deleted_is_removed_once(watched: Database, watching: Start) -> None:
    """Its key comes in a batch of kind removed; the rows that stay, and those that come, do not."""
    make_orders(watched)
    watched.insert("orders", [order(number) for number in range(1, 6)])
    shop = watching(removals=True, primary_key="id")
    await shop.live()
    watched.execute("DELETE FROM orders WHERE id IN (2, 4)")
    watched.insert("orders", [order(6)])
    await shop.live(40)
    assert await shop.batches("removed") == [[{"id": 2}, {"id": 4}]]
    assert [row["id"] for rows in await shop.batches("added") for row in rows] == [1, 2, 3, 4, 5, 6]


async def test_nothing_is_told_or_committed_while_nothing_goes(watched: Database, watching: Start) -> None:
    """Walks that find everything as it was move nothing."""
    make_orders(watched)
    watched.insert("orders", [order(number) for number in range(1, 6)])
    shop = watching(removals=True, primary_key="id")
    await shop.live(50)
    version = (await shop.store.load(KEY)).version
    await shop.live(100)
    assert (await shop.store.load(KEY)).version == version
    assert await shop.removed() == []


async def test_a_row_that_comes_back_can_go_again(watched: Database, watching: Start) -> None:
    """Each time that it goes, it is removed once."""
    make_orders(watched)
    shop = watching(removals=True, primary_key="id")
    for _ in range(2):
        watched.insert("orders", [order(1, NOON), order(2)])
        await shop.live(20)
        watched.execute("DELETE FROM orders WHERE id = 1")
        await shop.live(20)
        watched.execute("DELETE FROM orders WHERE id = 2")
        await shop.die()
        await shop.store.rewind(KEY, None, reread=True)  # the cursor of a row that comes back is not above it
        shop.start()
        await shop.live(20)
    assert sorted(item["id"] for item in await shop.removed()) == [1, 1, 2, 2]


async def test_restarts_in_the_middle_of_a_walk(watched: Database, watching: Start) -> None:
    """Many small steps, each in a life of its own: no key is lost or told twice, in batches of the limit."""
    make_orders(watched)
    watched.insert("orders", [order(number) for number in range(1, 41)])
    shop = watching(removals=True, primary_key="id", limit=15)
    await shop.live(30)
    await shop.die()
    shop.small = True
    watched.execute("DELETE FROM orders WHERE id % 3 = 0")
    for _ in range(6):
        shop.start()
        await shop.live(11)
        await shop.die()
    assert sorted(item["id"] for item in await shop.removed()) == list(range(3, 41, 3))
    watched.execute("DELETE FROM orders")
    shop.start()
    await shop.live(60)
    assert sorted(item["id"] for item in await shop.removed()) == list(range(1, 41))


async def test_a_table_that_is_emptied_comes_in_batches_of_the_limit(watched: Database, watching: Start) -> None:
    """No batch is larger than one of rows may be."""
    make_orders(watched)
    watched.insert("orders", [order(number) for number in range(1, 101)])
    shop = watching(removals=True, primary_key="id", limit=30)
    await shop.live(100)
    watched.execute("DELETE FROM orders")
    await shop.live(100)
    assert [len(items) for items in await shop.batches("removed")] == [30, 30, 30, 10]


async def test_a_row_that_is_not_meant_any_more_is_gone(watched: Database, watching: Start) -> None:
    """What does not meet the condition is not watched."""
    make_orders(watched)
    watched.insert("orders", [order(1, name="open"), order(2, name="open")])
    shop = watching(removals=True, primary_key="id", where="name = :state", parameters={"state": "open"})
    await shop.live(20)
    watched.execute("UPDATE orders SET name = 'closed' WHERE id = 2")
    await shop.live(20)
    assert await shop.removed() == [{"id": 2}]


DELETED = {
    "a boolean": ("boolean", "false", "true"),
    "a time": ("timestamp NULL", "NULL", "'2026-01-31 12:00:00'"),
    "a number": ("int", "0", "1"),
}


@pytest.mark.parametrize("kind", DELETED)
async def test_a_row_that_says_that_it_is_deleted(watched: Database, watching: Start, kind: str) -> None:
    """It comes whole, in a batch of kind removed, when its cursor moves; the others are added."""
    column, no, yes = DELETED[kind]
    watched.execute(
        f"CREATE TABLE orders (id bigint PRIMARY KEY, updated_at {watched.timestamp} NOT NULL, gone {column})",
        f"INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', {no}), (2, '2026-01-31 12:00:00', {no})",
    )
    shop = watching(deleted_column="gone")
    await shop.live()
    watched.execute(f"UPDATE orders SET gone = {yes}, updated_at = '2026-01-31 12:00:01' WHERE id = 1")
    watched.execute("UPDATE orders SET updated_at = '2026-01-31 12:00:02' WHERE id = 2")
    await shop.live()
    await shop.live()
    assert [[row["id"] for row in rows] for rows in await shop.batches("added")] == [[1, 2], [2]]
    (removed,) = await shop.batches("removed")
    assert [row["id"] for row in removed] == [1]
    assert set(removed[0]) == {"id", "updated_at", "gone"}


async def test_a_zero_date_is_none(mysql_database: str) -> None:
    """MySQL's old way to write that something has not happened, which its drivers give as text."""
    watched = Database(mysql_database)
    with watched.engine().connect() as session:
        session.execute(sa.text("SET sql_mode = ''"))
        session.execute(sa.text("CREATE TABLE orders (id int PRIMARY KEY, gone datetime DEFAULT '0000-00-00')"))
        session.execute(sa.text("INSERT INTO orders VALUES (1, DEFAULT), (2, '2026-01-31 12:00:00')"))
        session.commit()
    selection = check_sql_arguments(table="orders", cursor=["id"], visibility="none")
    removals = check_removals(selection, deleted_column="gone")
    source = SqlSource(reader=watched.reader(), conn_id="shop", selection=selection, removals=removals)
    found = await source.poll(None, 10, frozenset())
    assert [row["id"] for row in found.items] == [1]
    assert [row["id"] for row in found.removed] == [2]
    await watched.aclose()


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
async def test_a_time_that_never_comes_is_none(watched_postgres: Database, kind: str) -> None:
    """A row whose deletion is put off for ever is there; one that was deleted since ever, or will be, is not."""
    watched_postgres.execute(
        f"CREATE TABLE orders (id int PRIMARY KEY, gone {kind})",
        "INSERT INTO orders VALUES (1, 'infinity'), (2, '-infinity'), (3, '9999-12-31'), (4, '9999-12-30'), (5, NULL)",
    )
    selection = check_sql_arguments(table="orders", cursor=["id"])
    removals = check_removals(selection, deleted_column="gone")
    source = SqlSource(reader=watched_postgres.reader(), conn_id="shop", selection=selection, removals=removals)
    found = await source.poll(None, 10, frozenset())
    assert [row["id"] for row in found.items] == [1, 3, 5]
    assert [row["id"] for row in found.removed] == [2, 4]


@pytest.mark.parametrize("value", ["9999-12-31", "9999-12-31 23:59:59", "9999-12-31T00:00:00Z"])
def test_a_text_of_a_time_that_never_comes_is_none(value: str) -> None:
    """As SQLite and others keep times."""
    assert parted([{"id": 1, "gone": value}], "gone", "table orders") == ([{"id": 1, "gone": value}], [])


async def test_a_column_that_does_not_say_so_is_told(watched: Database, watching: Start) -> None:
    """A text is neither yes nor no; and the column has to be there."""
    make_orders(watched)
    watched.insert("orders", [order(1, name="no")])
    shop = watching(deleted_column="name")
    await shop.live()
    assert "'no' there, which does not say whether the row is deleted" in (await shop.status()).last_error
    await shop.die()
    shop = watching(deleted_column="gone")
    await shop.live()
    assert "no such column; it has id, updated_at, name" in (await shop.status()).last_error


async def test_no_step_keeps_the_event_loop(watched_postgres: Database) -> None:
    """Tens of thousands of keys are read, kept, read again and missed, in parts that others hardly notice."""
    watched_postgres.execute(
        "CREATE TABLE orders (id uuid PRIMARY KEY)",
        "INSERT INTO orders SELECT gen_random_uuid() FROM generate_series(1, 30000)",
    )
    selection = check_sql_arguments(table="orders", cursor="id")
    keys = KeyReader(reader=watched_postgres.reader(), selection=selection, primary_key=["id"])
    removals, pieces, gone = Removals(keys=keys, clock=FakeClock()), Pieces(), 0
    for statement in ("SELECT 1", "SELECT 1", "DELETE FROM orders WHERE id::text < '1'"):
        watched_postgres.execute(statement)
        more = True
        async with loop_share() as share:
            while more:
                step = await removals.follow(pieces, [], limit=1000)
                pieces.change(step.remember)
                more, gone = step.more, gone + len(step.items)
        assert share.longest < 1 / 3
    assert gone > 1000


async def test_walks_take_a_tenth_of_the_time(watched_postgres: Database) -> None:
    """After a walk that took long, the next one waits nine times as long."""
    make_orders(watched_postgres)
    clock = FakeClock()
    selection = check_sql_arguments(table="orders", cursor="id")
    keys = KeyReader(reader=watched_postgres.reader(), selection=selection, primary_key=["id"])
    page = keys.page

    async def slow(*arguments: Any) -> Any:
        clock.advance(20)
        return await page(*arguments)

    keys.page = slow
    removals = Removals(keys=keys, clock=clock)
    assert removals.due
    await removals.follow(SqlSource.memory, [], limit=10)
    clock.advance(179)
    assert not removals.due
    clock.advance(2)
    assert removals.due
