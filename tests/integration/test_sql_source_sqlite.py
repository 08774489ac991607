"""The SQL source on SQLite, whose columns have no types and whose timestamps are texts."""

from __future__ import annotations

import asyncio
import datetime as dt
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import loads
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_sqlite import sqlite_keys
from tests.integration.sql_stage import Database, Watcher, sqlite_database


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """An empty database in a file."""
    return sqlite_database(tmp_path)


async def test_whole_and_broken_numbers_in_one_column_are_one_order(database: Database) -> None:
    """SQLite keeps 1 and 1.5 of one column in two types: both are positions in it, to the last digit."""
    database.execute("CREATE TABLE orders (c numeric NOT NULL PRIMARY KEY)")
    numbers = [-(2**63), 1, 1.5, 2, 2**53 + 1, 2**63 - 1]
    database.insert("orders", [{"c": number} for number in reversed(numbers)])
    watcher = Watcher(lambda: database.source(cursor="c"), limit=1)
    await watcher.drain()
    assert [item["c"] for item in watcher.items] == numbers
    start = await database.source(cursor="c").at("9007199254740993")
    assert start.cursor == (2**53 + 1,)


@pytest.mark.parametrize("separator", [" ", "T"])
async def test_the_edge_is_written_as_the_column_is(database: Database, separator: str) -> None:
    """A timestamp is compared as text: the clock is written with the column's separator, and a start is too."""
    form = f"%Y-%m-%d{separator}%H:%M:%f"
    database.execute("CREATE TABLE orders (id integer PRIMARY KEY, updated_at text NOT NULL)")
    for number, offset in ((1, "-1 day"), (2, "-5 seconds"), (3, "+1 day")):
        database.execute(
            "INSERT INTO orders VALUES (:id, strftime(:form, 'now', :at))", id=number, form=form, at=offset
        )
    watcher = Watcher(database.source)
    await watcher.drain()
    assert watcher.ids == [1, 2]
    assert watcher.note is None
    await watcher.drain()
    assert watcher.note is not None
    assert "held back" in watcher.note
    ((day,),) = database.execute("SELECT date('now', '-1 hour')")
    assert (await database.source().at(f"{day} 00:00")).cursor == (f"{day}{separator}00:00",)


async def test_a_text_that_is_no_timestamp_has_no_edge(database: Database) -> None:
    """Any other text is a position as it stands, whatever the clock says."""
    database.execute("CREATE TABLE orders (c text NOT NULL PRIMARY KEY)")
    database.insert("orders", [{"c": name} for name in ("a", "9999-12-31", "zz")])
    watcher = Watcher(lambda: database.source(cursor="c"), limit=1)
    await watcher.drain()
    assert [item["c"] for item in watcher.items] == ["9999-12-31", "a", "zz"]


async def test_a_column_of_several_types_is_refused_as_a_cursor(database: Database) -> None:
    """A text among numbers has no place that a position could name: an error, and the watermark stays."""
    database.execute("CREATE TABLE orders (c NOT NULL PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1)")
    database.execute("INSERT INTO orders VALUES ('b')")
    watcher = Watcher(lambda: database.source(cursor="c"))
    with pytest.raises(SourceError, match="has values of several types"):
        await watcher.poll()
    assert loads(watcher.watermark) is None


async def test_a_start_on_an_empty_table_waits_for_the_type_to_show(database: Database) -> None:
    """Types show with the first row: until then a start cannot be read, and nothing is skipped meanwhile."""
    database.execute("CREATE TABLE orders (id integer PRIMARY KEY, updated_at text NOT NULL)")
    source = database.source(cursor="id")
    with pytest.raises(SourceError, match="its type shows with the first row"):
        await source.at("5")
    database.execute("INSERT INTO orders VALUES (6, '')")
    assert (await source.at("5")).cursor == (5,)


async def test_reading_waits_for_no_writer(database: Database) -> None:
    """A writer in the middle of a transaction neither blocks a poll nor shows it anything."""
    database.execute("CREATE TABLE orders (id integer PRIMARY KEY)")
    database.execute("INSERT INTO orders VALUES (1)")
    watcher = Watcher(lambda: database.source(cursor="id"))
    with database.engine().connect() as writer:
        writer.exec_driver_sql("INSERT INTO orders VALUES (2)")
        async with asyncio.timeout(4):
            await watcher.drain()
        writer.commit()
    assert watcher.ids == [1]
    await watcher.drain()
    assert watcher.ids == [1, 2]


async def test_texts_to_the_minute_wait_until_their_minute_is_over(database: Database) -> None:
    """What changes later in the same minute gets the same text, which lies behind the row that was read."""
    while dt.datetime.now(dt.UTC).second > 50:  # the minute has to last for the test
        await asyncio.sleep(0.5)
    database.execute(
        "CREATE TABLE orders (id integer PRIMARY KEY, updated_at text NOT NULL)",
        "INSERT INTO orders VALUES (1, strftime('%Y-%m-%d %H:%M', 'now', '-2 minutes')), "
        "(5, strftime('%Y-%m-%d %H:%M', 'now'))",
    )
    watcher = Watcher(database.source)
    await watcher.drain()
    assert watcher.ids == [1]


@pytest.mark.parametrize(
    ("definition", "index", "is_key"),
    [
        ("(name text NOT NULL COLLATE NOCASE)", "name COLLATE BINARY", False),
        ("(name text NOT NULL COLLATE NOCASE)", "name COLLATE RTRIM", False),
        ("(name text NOT NULL COLLATE nocase)", "name COLLATE NOCASE", True),
        ("(name text NOT NULL COLLATE NOCASE)", "name", True),
        ("(name text NOT NULL)", "name COLLATE NOCASE", True),
        ("(name text NOT NULL COLLATE of_mine)", "name COLLATE BINARY", False),
        ("(name text NOT NULL COLLATE of_mine)", "name", True),
        ("(name text NOT NULL, other text COLLATE [of_mine])", "name", True),
        ("(name text NOT NULL COLLATE NOCASE, PRIMARY KEY (name COLLATE BINARY))", None, False),
        ("(name text NOT NULL COLLATE NOCASE, UNIQUE (name COLLATE BINARY))", None, False),
        ("(name text NOT NULL COLLATE NOCASE, UNIQUE (name))", None, True),
        ("(name text COLLATE NOCASE PRIMARY KEY NOT NULL)", None, True),
        ("(name text COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID", None, True),
        ("(name text NOT NULL)", "lower(name)", False),
        ("(name text NOT NULL)", "name) WHERE (name > 'b'", False),
    ],
)
async def test_47_an_index_that_tells_apart_what_the_column_calls_equal_is_no_key(
    database: Database, definition: str, index: str | None, is_key: bool
) -> None:
    """Where 'a' and 'A' share a place by the column's collation, a unique index by another one lets both in."""
    with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as application:
        application.create_collation("of_mine", lambda one, other: (one > other) - (one < other))
        application.execute(f'CREATE TABLE "odd ""names""" {definition}')
        if index is not None:
            application.execute(f'CREATE UNIQUE INDEX alike ON "odd ""names""" ({index})')
    with database.engine().connect() as connection:
        keys = sqlite_keys(connection, None, 'odd "names"').columns
    assert keys == [frozenset({"name"})][:is_key]
    if "of_mine" not in definition:
        found = database.source(table='odd "names"', cursor="name").poll(None, 1, frozenset())
        with nullcontext() if is_key else pytest.raises(SourceError, match="no total order"):
            assert (await found).size == 0


@pytest.mark.parametrize("key", ["id int PRIMARY KEY", "id text PRIMARY KEY", "id INTEGER PRIMARY KEY DESC"])
async def test_46_null_in_a_primary_key_is_found(database: Database, key: str) -> None:
    """Where a primary key is not the row's own number, SQLite takes NULL for it: such rows are refused, or skipped."""
    database.execute(f"CREATE TABLE orders ({key})", "INSERT INTO orders VALUES (NULL), (NULL), (1)")
    with pytest.raises(SourceError, match=r"2 rows have NULL in a cursor column \(id\)"):
        await database.source(cursor="id").poll(None, 10, frozenset())
    found = await database.source(cursor="id", null_cursor="skip").poll(None, 10, frozenset())
    assert found.size == 1
    assert "skipped: 2 rows" in (found.note or "")
    database.execute("DELETE FROM orders WHERE id IS NULL")
    assert (await database.source(cursor="id").poll(None, 10, frozenset())).size == 1


@pytest.mark.parametrize("key", ["(id INTEGER PRIMARY KEY)", "(id int PRIMARY KEY) WITHOUT ROWID"])
async def test_46_a_primary_key_that_cannot_be_null_is_not_searched(database: Database, key: str) -> None:
    """The row's own number, and the key of a table without one, always have a value."""
    database.execute(f"CREATE TABLE orders {key}")
    selection = check_sql_arguments(table="orders", cursor="id")
    shape = await database.reader().describe(selection)
    assert [column.may_be_null for column in shape.columns] == [False]
    assert frozenset({"id"}) in (shape.keys or ())
