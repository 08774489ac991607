"""The SQL source on PostgreSQL, MariaDB and SQLite: each row once, in order, in its type, whatever happens between."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import dumps
from tests.integration.sql_stage import NOON, Database, Watcher, make_orders, order, stamp


@pytest.fixture
def database(watched: Database) -> Database:
    """An empty database of each kind."""
    return watched


@pytest.fixture
def orders(watched: Database) -> Database:
    """A database of each kind with an empty table ``orders``."""
    make_orders(watched)
    return watched


async def test_36_rows_of_one_time_come_once_each_with_limit_1_and_restarts(orders: Database) -> None:
    """Two rows with the same updated_at, one a poll, restart between polls: both once, then nothing."""
    orders.insert("orders", [order(1), order(2)])
    watcher = Watcher(orders.source, limit=1)
    assert [await watcher.poll() for _ in range(3)] == [
        [{"id": 1, "updated_at": stamp(orders, NOON), "name": ""}],
        [{"id": 2, "updated_at": stamp(orders, NOON), "name": ""}],
        [],
    ]


async def test_39_microseconds_are_kept_by_the_cursor(orders: Database) -> None:
    """Rows that differ in microseconds only are each found once, and the cursor is the column's value to the digit."""
    times = [NOON.replace(microsecond=micro) for micro in (123456, 123789)]
    orders.insert("orders", [order(2, times[0]), order(1, times[1])])
    watcher = Watcher(orders.source, limit=1)
    await watcher.drain()
    assert watcher.ids == [2, 1]
    assert watcher.watermark == dumps((stamp(orders, times[1]), 1))
    assert await watcher.poll() == []


async def test_41_earliest_has_no_lower_bound(orders: Database) -> None:
    """Rows with ids of 0 and below, and stamped with the epoch or before it, are found from the very start."""
    epoch = dt.datetime.fromisoformat("1970-01-01")
    orders.insert("orders", [order(0, epoch), order(-5, epoch), order(7, dt.datetime.fromisoformat("1001-01-01"))])
    watcher = Watcher(orders.source)
    await watcher.drain()
    assert watcher.ids == [7, -5, 0]
    by_id = Watcher(lambda: orders.source(cursor="id"), limit=1)
    await by_id.drain()
    assert by_id.ids == [-5, 0, 7]


async def test_42_a_row_of_the_second_of_the_poll_is_found_later(orders: Database) -> None:
    """A poll in the second that a row is stamped with does not deliver it: another one may still get that stamp."""
    soon = {
        "postgresql": "SELECT CAST(date_trunc('second', localtimestamp) + interval '2 seconds' AS text)",
        "mysql": "SELECT CAST(NOW() + INTERVAL 2 SECOND AS char)",
        "sqlite": "SELECT datetime('now', '+2 seconds')",
    }
    ((at,),) = orders.execute(soon[orders.kind])
    orders.execute("INSERT INTO orders VALUES (9, :at, '')", at=at)
    watcher = Watcher(lambda: orders.source(settle=1.0))
    assert await watcher.poll() == []
    orders.execute("INSERT INTO orders VALUES (8, :at, '')", at=at)
    async with asyncio.timeout(30):
        while not watcher.ids:
            await watcher.poll()
            await asyncio.sleep(0.02)
    await watcher.poll()
    assert watcher.ids == [8, 9]


async def test_45_many_rows_of_one_value_leave_a_small_cursor(orders: Database) -> None:
    """Thousands of rows with one value are drained a thousand at a time; the cursor is one value and one id."""
    orders.insert("orders", [order(number) for number in range(5_000)])
    watcher = Watcher(orders.source)
    await watcher.drain()
    assert watcher.ids == list(range(5_000))
    assert watcher.polls == 5
    assert len(watcher.watermark) < 100


async def test_46_a_null_in_the_cursor_is_an_error_and_never_a_position(database: Database) -> None:
    """A row without a cursor value is named and counted; when it has got one, it is delivered."""
    database.execute(f"CREATE TABLE orders (id bigint PRIMARY KEY, updated_at {database.timestamp} NULL)")
    database.execute("INSERT INTO orders VALUES (1, NULL), (2, '2026-01-31 12:00:00'), (3, NULL)")
    watcher = Watcher(database.source)
    with pytest.raises(SourceError, match=r"2 rows have NULL in a cursor column \(updated_at\)"):
        await watcher.poll()
    assert watcher.watermark == "null"
    database.execute("UPDATE orders SET updated_at = '2026-01-31 11:00:00' WHERE updated_at IS NULL")
    await watcher.drain()
    assert watcher.ids == [1, 3, 2]


async def test_46_a_null_that_appears_between_polls_is_an_error(database: Database) -> None:
    """A source that is already polling notices a row without a place in the order as well."""
    database.execute(f"CREATE TABLE orders (id bigint PRIMARY KEY, updated_at {database.timestamp} NULL)")
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00')")
    source = database.source()
    watcher = Watcher(lambda: source)
    await watcher.drain()
    database.execute("INSERT INTO orders VALUES (2, NULL)")
    with pytest.raises(SourceError, match="1 rows have NULL"):
        await watcher.poll()


async def test_47_a_table_without_a_key_in_the_cursor_is_refused(database: Database) -> None:
    """Without a unique column in the cursor nothing is read, and the message says what to add."""
    database.execute(f"CREATE TABLE orders (id bigint NOT NULL, updated_at {database.timestamp} NOT NULL)")
    database.insert("orders", [{"id": 1, "updated_at": NOON.isoformat(" ")}] * 2)
    database.execute("CREATE INDEX orders_plain ON orders (id)")
    with pytest.raises(SourceError, match="no total order: no primary key and no unique index"):
        await database.source().poll(None, 1, frozenset())
    database.execute("DELETE FROM orders")
    database.execute("CREATE UNIQUE INDEX orders_id ON orders (id)")
    assert (await database.source().poll(None, 1, frozenset())).high is None
    with pytest.raises(SourceError, match=r"add the column\(s\) \['id'\] at the end"):
        await database.source(cursor=["updated_at"]).poll(None, 1, frozenset())


async def test_47_a_query_whose_cursor_repeats_is_found_out(database: Database) -> None:
    """Nobody knows the key of a query; two rows of one cursor in one poll, or at the watermark, are an error."""
    database.execute(f"CREATE TABLE orders (id bigint NOT NULL, updated_at {database.timestamp} NOT NULL)")
    database.insert("orders", [{"id": 1, "updated_at": NOON.isoformat(" ")}] * 2)
    source = database.source(sql="SELECT * FROM orders")
    with pytest.raises(SourceError, match=r"two rows have the same cursor \(updated_at, id\)"):
        await source.poll(None, 1, frozenset())


async def test_51_rows_of_the_cursor_value_that_come_between_polls_arrive(orders: Database) -> None:
    """Of 60 rows with one stamp, 21 before a poll and 39 after it, all arrive once."""
    orders.insert("orders", [order(number) for number in range(21)])
    watcher = Watcher(orders.source, limit=7)
    await watcher.drain()
    orders.insert("orders", [order(number) for number in range(21, 60)])
    await watcher.drain()
    assert watcher.ids == list(range(60))


async def test_52_a_smaller_id_between_two_pages_shifts_nothing(orders: Database) -> None:
    """A row that sorts before the watermark moves no page: nothing behind it is lost or repeated."""
    orders.insert("orders", [order(number) for number in (10, 20, 30, 40)])
    watcher = Watcher(orders.source, limit=2)
    await watcher.poll()
    orders.insert("orders", [order(5)])
    orders.execute("DELETE FROM orders WHERE id = 10")
    await watcher.drain()
    assert watcher.ids == [10, 20, 30, 40]


async def test_an_updated_row_comes_again(orders: Database) -> None:
    """A row whose stamp moves on is found again, as it is then."""
    orders.insert("orders", [order(1), order(2)])
    watcher = Watcher(orders.source)
    await watcher.drain()
    later = NOON + dt.timedelta(microseconds=1)
    orders.execute("UPDATE orders SET updated_at = :at, name = 'new' WHERE id = 1", at=later.isoformat(" "))
    assert await watcher.drain() == [{"id": 1, "updated_at": stamp(orders, later), "name": "new"}]


async def test_values_of_many_sizes_come_through(database: Database) -> None:
    """Bytes, texts of any kind, numbers to the last digit and a value of 10 MB arrive as they were written."""
    blob = {"postgresql": "bytea", "mysql": "longblob", "sqlite": "blob"}[database.kind]
    text = {"postgresql": "text", "mysql": "longtext CHARACTER SET utf8mb4", "sqlite": "text"}[database.kind]
    database.execute(f"CREATE TABLE orders (id bigint PRIMARY KEY, data {blob}, words {text})")
    rows = [
        {"id": 2**63 - 1, "data": bytes(range(256)), "words": "ünï ☃ 🎈 'q' \\ %s :x $1"},
        {"id": -(2**63), "data": b"", "words": "x" * 10_000_000},
        {"id": 0, "data": None, "words": None},
    ]
    database.insert("orders", rows)
    watcher = Watcher(lambda: database.source(cursor="id"), limit=1)
    await watcher.drain()
    assert watcher.items == sorted(rows, key=lambda row: row["id"])


async def test_a_cursor_of_text_is_compared_by_the_database(database: Database) -> None:
    """Texts are put in order by the column's collation, whatever Python thinks of it."""
    collation = {"postgresql": 'COLLATE "C"', "mysql": "COLLATE utf8mb4_general_ci", "sqlite": "COLLATE NOCASE"}
    database.execute(f"CREATE TABLE orders (id varchar(50) {collation[database.kind]} NOT NULL PRIMARY KEY)")
    names = ["b", "A", "ab", "Z", "z'\"", "é"]
    database.insert("orders", [{"id": name} for name in names])
    expected = [row[0] for row in database.execute("SELECT id FROM orders ORDER BY id")]
    watcher = Watcher(lambda: database.source(cursor="id"), limit=1)
    await watcher.drain()
    assert watcher.ids == expected


async def test_polls_and_a_writer_at_once_lose_and_repeat_nothing(orders: Database) -> None:
    """While rows are inserted in the order of their ids, polls with a small limit deliver each of them once."""

    def write() -> None:
        for number in range(0, 150, 3):
            orders.insert("orders", [order(number + each) for each in range(3)])

    watcher = Watcher(orders.source, limit=10)
    writing = asyncio.create_task(asyncio.to_thread(write))
    while not writing.done():
        await watcher.drain()
    await writing
    await watcher.drain()
    assert watcher.ids == list(range(150))
