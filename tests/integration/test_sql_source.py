"""The SQL source on PostgreSQL, MariaDB and SQLite: each row once, in order, in its type, whatever happens between."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import dumps
from tests.integration.sql_stage import Database, Watcher, make_orders, sqlite_database

NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        made = sqlite_database(tmp_path)
    else:
        fixture = "postgres_database" if request.param == "postgresql" else "mysql_database"
        made = Database(request.getfixturevalue(fixture))
    yield made
    await made.aclose()


@pytest.fixture
def orders(database: Database) -> Database:
    """A database with an empty table ``orders``."""
    make_orders(database)
    return database


def order(number: int, at: dt.datetime = NOON, name: str = "") -> dict[str, object]:
    return {"id": number, "updated_at": at.isoformat(" "), "name": name}


def stamp(database: Database, at: dt.datetime) -> object:
    """What the driver returns for a timestamp that was written as text."""
    return at.isoformat(" ") if database.kind == "sqlite" else at


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


async def test_a_query_with_parameters_is_watched_like_a_table(orders: Database) -> None:
    """A query is wrapped, whatever it ends with, and its parameters are bound."""
    orders.insert("orders", [order(number, name=f"it's {number % 2}") for number in range(6)])
    sql = """
        SELECT id, updated_at, name AS "What:s it", '100% :sure' AS note FROM orders o WHERE name = :name
        -- only some of them"""
    watcher = Watcher(lambda: orders.source(sql=sql, parameters={"name": "it's 1"}), limit=2)
    await watcher.drain()
    assert watcher.ids == [1, 3, 5]
    assert list(watcher.items[0]) == ["id", "updated_at", "What:s it", "note"]
    assert list(watcher.items[0].values()) == [1, stamp(orders, NOON), "it's 1", "100% :sure"]


async def test_range_delivers_bounds_and_a_count(orders: Database) -> None:
    """With payload="range" a batch has no items; its cursor and its count are those of the rows."""
    orders.insert("orders", [order(number) for number in range(5)])
    watcher = Watcher(lambda: orders.source(payload="range"), limit=3)
    assert await watcher.poll() == []
    assert (watcher.count, watcher.more, watcher.watermark) == (3, True, dumps((stamp(orders, NOON), 2)))
    assert await watcher.poll() == []
    assert (watcher.count, watcher.more, watcher.watermark) == (2, False, dumps((stamp(orders, NOON), 4)))


async def test_columns_choose_what_is_delivered(orders: Database) -> None:
    """Only the named columns are read and delivered, in that order."""
    orders.insert("orders", [order(1)])
    watcher = Watcher(lambda: orders.source(columns=["id", "updated_at"]))
    assert [list(item) for item in await watcher.poll()] == [["id", "updated_at"]]


async def test_latest_is_the_last_row_below_the_edge_and_nothing_on_an_empty_table(orders: Database) -> None:
    """The baseline is None without rows; with rows it is the last one's cursor, and what comes later is found."""
    assert (await orders.source().latest()).cursor is None
    orders.insert("orders", [order(1), order(3), order(2)])
    baseline = await orders.source().latest()
    assert baseline.cursor == (stamp(orders, NOON), 3)
    orders.insert("orders", [order(4)])
    watcher = Watcher(orders.source, watermark=dumps(baseline.cursor))
    await watcher.drain()
    assert watcher.ids == [4]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-01-31T12:00:01", [2, 3, 4]),
        (["2026-01-31 12:00:01"], [2, 3, 4]),
        (["2026-01-31T12:00:01", 2], [3, 4]),
        (["2026-01-31T12:00:01", "3"], [4]),
        ("2026-02-01", []),
        (NOON + dt.timedelta(seconds=2), [4]),
    ],
)
async def test_a_start_given_by_a_user_is_read_in_the_columns_type(
    orders: Database, start: object, expected: list[int]
) -> None:
    """A time for the first column starts with the rows of that time; a value for each is a row that was delivered."""
    orders.insert("orders", [order(number, NOON + dt.timedelta(seconds=number // 2)) for number in (1, 2, 3, 4)])
    baseline = await orders.source().at(start)
    watcher = Watcher(orders.source, limit=1, watermark=dumps(baseline.cursor))
    await watcher.drain()
    assert watcher.ids == expected


async def test_a_start_that_does_not_fit_is_refused_with_an_example(orders: Database) -> None:
    """A start in the wrong type or with too many values names the column and what is expected."""
    orders.insert("orders", [order(1)])
    with pytest.raises(SourceError, match=r"start=\['2026-01-31', 'x'\]|start='x'.*column id.*expected a"):
        await orders.source().at(["2026-01-31", "x"])
    with pytest.raises(SourceError, match="has more values than the cursor updated_at,id"):
        await orders.source().at(["2026-01-31", 1, 2])


async def test_a_position_set_by_hand_is_read_like_a_start(orders: Database) -> None:
    """Whoever sets a watermark writes a list or one value; it is understood, and the next position is a row's."""
    orders.insert("orders", [order(number) for number in (1, 2, 3)])
    watcher = Watcher(orders.source, watermark='["2026-01-31 12:00:00", 2]')
    await watcher.drain()
    assert watcher.ids == [3]
    assert watcher.watermark == dumps((stamp(orders, NOON), 3))
    empty = Watcher(orders.source, watermark='"2027-01-01 00:00:00"')
    assert await empty.drain() == []
    assert empty.watermark == '"2027-01-01 00:00:00"'


async def test_a_missing_table_and_a_missing_column_are_named(orders: Database) -> None:
    """The message names what is missing and where; after it is there, the same source goes on."""
    with pytest.raises(SourceError, match="nowhere") as missing:
        await orders.source(table="nowhere").poll(None, 10, frozenset())
    assert orders.kind in str(missing.value)
    source = orders.source(cursor=["changed_at", "id"])
    with pytest.raises(SourceError, match="no column 'changed_at'; it has id, updated_at, name"):
        await source.poll(None, 10, frozenset())
    with pytest.raises(SourceError, match=r"columns=.*no column 'price'"):
        await orders.source(columns=["updated_at", "id", "price"]).poll(None, 10, frozenset())
    orders.execute(f"ALTER TABLE orders ADD COLUMN changed_at {orders.timestamp}")
    orders.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '', '2026-01-31 12:00:00')")
    found = await source.poll(None, 10, frozenset())
    assert [item["id"] for item in found.items] == [1]


async def test_a_table_that_is_made_anew_is_read_again(orders: Database) -> None:
    """Dropped and created with other columns: an error while it is gone, then its rows as they are now."""
    orders.insert("orders", [order(1)])
    source = orders.source()
    first = await source.poll(None, 10, frozenset())
    orders.execute("DROP TABLE orders")
    with pytest.raises(SourceError, match="orders"):
        await source.poll(first.high, 10, frozenset())
    orders.execute(
        f"CREATE TABLE orders (id bigint PRIMARY KEY, extra varchar(9), updated_at {orders.timestamp} NOT NULL)"
    )
    orders.execute("INSERT INTO orders VALUES (2, 'e', '2026-01-31 12:00:00')")
    found = await source.poll(first.high, 10, frozenset())
    assert list(found.items) == [{"id": 2, "extra": "e", "updated_at": stamp(orders, NOON)}]


async def test_odd_names_are_quoted(database: Database) -> None:
    """Reserved words, capitals, spaces, quotes, percent signs and colons in names are names, and nothing else."""
    quote = "`" if database.kind == "mysql" else '"'
    odd = {"order": "order", "Capital": "Capital", "a b": "a b", "50%": "50%", ":x": r"\:x", "it's": "it's"}
    columns = ", ".join(f"{quote}{written}{quote} bigint NOT NULL" for written in odd.values())
    database.execute(f"CREATE TABLE {quote}The Table; --{quote} ({columns}, PRIMARY KEY ({quote}a b{quote}))")
    database.execute(f"INSERT INTO {quote}The Table; --{quote} VALUES (1, 2, 3, 4, 5, 6)")
    watcher = Watcher(lambda: database.source(table="The Table; --", cursor=["order", "50%", ":x", "it's", "a b"]))
    assert await watcher.drain() == [dict(zip(odd, range(1, 7), strict=True))]
    assert await watcher.drain() == []


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


async def test_a_cursor_that_no_longer_fits_is_refused_and_not_cast(orders: Database) -> None:
    """A watermark of another type than the column now has is an error that says what to do, and nothing is read."""
    orders.insert("orders", [order(1)])
    for cursor in ((5, 1), (stamp(orders, NOON), "1"), (dt.date(2026, 1, 1), 1), (NOON.replace(tzinfo=dt.UTC), 1)):
        with pytest.raises(SourceError, match="is not cast, since a cast may skip rows"):
            await orders.source().poll(cursor, 10, frozenset())


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
