"""The SQL source on SQLite, whose columns have no types and whose timestamps are texts."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import loads
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
