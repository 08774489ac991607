"""The SQL source on MariaDB or MySQL: its time zones, its types, its keys and its plans."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import loads
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from tests.integration.sql_stage import Database, Watcher, make_orders

NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture
async def database(mysql_database: str) -> AsyncIterator[Database]:
    """An empty database."""
    made = Database(mysql_database)
    yield made
    await made.aclose()


@pytest.fixture
def server_zone(database: Database, request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the server live in another time zone."""
    ((before,),) = database.execute("SELECT @@global.time_zone")
    database.execute("SET GLOBAL time_zone = :zone", zone=request.param)
    yield request.param
    database.execute("SET GLOBAL time_zone = :zone", zone=before)


@pytest.mark.parametrize("server_zone", ["SYSTEM", "+05:30", "-08:00"], indirect=True)
@pytest.mark.parametrize("kind", ["datetime(6)", "timestamp(6)"])
@pytest.mark.parametrize("arguments", [{"table": "orders"}, {"sql": "SELECT * FROM orders"}])
@pytest.mark.usefixtures("server_zone")
async def test_40_the_edge_is_the_servers_wall_clock(database: Database, kind: str, arguments: dict[str, str]) -> None:
    """Rows stamped by the server a moment ago are found in any zone, those of a moment to come are not."""
    database.execute(f"CREATE TABLE orders (id int PRIMARY KEY, updated_at {kind} NOT NULL)")
    database.execute("INSERT INTO orders VALUES (1, NOW(6) - INTERVAL 3 SECOND), (2, NOW(6) + INTERVAL 30 SECOND)")
    watcher = Watcher(lambda: database.source(**arguments))
    await watcher.drain()
    assert watcher.ids == [1]
    assert watcher.note is None


async def test_40_a_datetime_of_another_zone_is_noted_and_mended_with_timezone(database: Database) -> None:
    """Rows hours ahead of the server's clock wait and are noted; with timezone= they come at once."""
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, UTC_TIMESTAMP(6) + INTERVAL 329 MINUTE, '')")
    watcher = Watcher(database.source)
    assert await watcher.poll() == []
    assert watcher.note is not None
    assert "held back" in watcher.note
    mended = Watcher(lambda: database.source(timezone="Asia/Kolkata"))
    said = r"mysql_tzinfo_to_sql .*UTC.*'Etc/GMT-5'"
    with pytest.raises(SourceError, match=said):  # the server of the tests has no zones by name
        await mended.drain()


@pytest.mark.parametrize("server_zone", ["+05:30"], indirect=True)
@pytest.mark.parametrize(
    ("zone", "hours"), [("UTC", 0), ("Etc/UTC", 0), ("GMT", 0), ("Etc/GMT-9", 9), ("Etc/GMT+11", -11)]
)
@pytest.mark.usefixtures("server_zone")
async def test_a_zone_whose_offset_never_changes_needs_no_zones_of_the_servers(
    database: Database, zone: str, hours: int
) -> None:
    """UTC and its fixed offsets are known to a server that knows no zone by its name."""
    make_orders(database)
    for number, seconds in enumerate((-3, 30), start=1):
        database.execute(
            f"INSERT INTO orders VALUES ({number}, UTC_TIMESTAMP(6) + INTERVAL {hours * 3600 + seconds} SECOND, '')"
        )
    watcher = Watcher(lambda: database.source(timezone=zone))
    await watcher.drain()
    assert watcher.ids == [1]


async def test_43_a_timestamp_is_the_same_instant_in_every_session(database: Database) -> None:
    """The server's zone changes between two polls: a TIMESTAMP stays in order, and comes in UTC."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp(6) NOT NULL)")
    for number, at in ((2, "2025-10-26 00:30:00.000001"), (1, "2025-10-26 01:15:00")):
        # Through the session's zone, so that it is this instant whatever the server's zone.
        with database.engine().begin() as connection:
            connection.exec_driver_sql("SET time_zone = '+00:00'")
            connection.exec_driver_sql(f"INSERT INTO orders VALUES ({number}, '{at}')")
    ((before,),) = database.execute("SELECT @@global.time_zone")
    watcher = Watcher(database.source, limit=1)
    try:
        for zone in ("+02:00", "-09:30", "+01:00"):
            database.execute("SET GLOBAL time_zone = :zone", zone=zone)
            await watcher.poll()
    finally:
        database.execute("SET GLOBAL time_zone = :zone", zone=before)
    assert watcher.ids == [2, 1]
    assert watcher.items[0]["updated_at"] == dt.datetime.fromisoformat("2025-10-26 00:30:00.000001")
    assert loads(watcher.watermark) == (dt.datetime.fromisoformat("2025-10-26 01:15"), 1)


async def test_every_type_comes_as_the_driver_gives_it(database: Database) -> None:
    """Numbers to the last digit, bytes, times and texts arrive as they are."""
    columns = {
        "id": ("bigint unsigned NOT NULL PRIMARY KEY", "18446744073709551615", 2**64 - 1),
        "price": ("decimal(30,10)", "12345678901234567890.1234567890", Decimal("12345678901234567890.1234567890")),
        "ratio": ("double", "0.1", 0.1),
        "data": ("varbinary(10)", "x'00ff'", b"\x00\xff"),
        "bits": ("bit(9)", "b'100000001'", b"\x01\x01"),
        "day": ("date", "'2026-01-31'", dt.date(2026, 1, 31)),
        "at": ("datetime(6)", "'2026-01-31 12:00:00.000001'", NOON.replace(microsecond=1)),
        "span": ("time(6)", "'-100:00:00.5'", -dt.timedelta(hours=100, seconds=0.5)),
        "mood": ("enum('so so')", "'so so'", "so so"),
        "tags": ("set('a','b')", "'a,b'", "a,b"),
        "doc": ("json", "'{\"a\": [1]}'", '{"a": [1]}'),
        "words": ("text CHARACTER SET utf8mb4", "'it''s ☃ 🎈 %s'", "it's ☃ 🎈 %s"),
        "nothing": ("int", "NULL", None),
    }
    types = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    database.execute(f"CREATE TABLE orders ({types})")
    with database.engine().begin() as connection:
        values = ", ".join(value for _, value, _ in columns.values()).replace("%", "%%")
        connection.exec_driver_sql(f"INSERT INTO orders VALUES ({values})")
    watcher = Watcher(lambda: database.source(cursor="id"), limit=1)
    (item,) = await watcher.drain()
    assert item == {name: value for name, (_, _, value) in columns.items()}
    assert await watcher.drain() == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint unsigned", ["0", "18446744073709551615"]),
        ("decimal(30,10)", ["-0.0000000001", "12345678901234567890.5"]),
        ("varchar(20) COLLATE utf8mb4_bin", ["''", "'A'", "'a'", r"'back\\slash'", "'it''s'"]),
        ("varbinary(8)", ["x'00'", "x'0000'", "x'ff'"]),
        ("date", ["'1000-01-01'", "'9999-12-31'"]),
        ("datetime(6)", ["'1000-01-01 00:00:00'", "'2026-01-31 12:00:00.000001'", "'2026-01-31 12:00:00.000002'"]),
        ("datetime", ["'2025-01-31 12:00:00'", "'2026-01-31 12:00:00'"]),
        ("timestamp(3)", ["'2025-01-31 12:00:00.001'", "'2026-01-31 12:00:00.999'"]),
    ],
)
async def test_each_type_of_cursor_goes_on_where_it_was(database: Database, kind: str, values: list[str]) -> None:
    """Rows in the order of the column, one a poll, with the watermark through its JSON form between polls."""
    database.execute(f"CREATE TABLE orders (c {kind} NOT NULL PRIMARY KEY, number int)")
    for number, value in reversed(list(enumerate(values))):
        database.execute(f"INSERT INTO orders VALUES ({value}, {number})".replace(":", r"\:"))
    watcher = Watcher(lambda: database.source(cursor="c"), limit=1)
    await watcher.drain()
    assert [item["number"] for item in watcher.items] == list(range(len(values)))
    assert await watcher.drain() == []


@pytest.mark.parametrize("kind", ["date", "datetime(6)", "timestamp"])
@pytest.mark.parametrize("rows", [1, 2])
async def test_a_zero_date_is_called_that(database: Database, kind: str, rows: int) -> None:
    """Rows with a date that no calendar has are no positions; the condition that is offered leaves them out."""
    with database.engine().begin() as connection:
        connection.exec_driver_sql("SET sql_mode = ''")
        connection.exec_driver_sql(f"CREATE TABLE orders (id int, at {kind} NOT NULL, PRIMARY KEY (at, id))")
        connection.exec_driver_sql("INSERT INTO orders VALUES (1, '0000-00-00')")
        if rows > 1:
            connection.exec_driver_sql("INSERT INTO orders VALUES (2, '2026-01-31')")
    watched = {"cursor": ["at", "id"]}
    with pytest.raises(SourceError) as error:
        await database.source(**watched).poll(None, 1, frozenset())
    told = re.search("has '0000-00-00.*' in a row: no calendar has that date; .*where=\"(.*)\"", str(error.value))
    assert told is not None
    found = await database.source(**watched, where=told[1]).poll(None, 10, frozenset())
    assert [item["id"] for item in found.items] == [2][: rows - 1]


@pytest.fixture
def reader(database: Database) -> Iterator[Database]:
    """The same database for a user to whom nothing is granted yet."""
    name = f"reader_{uuid.uuid4().hex[:8]}"
    database.execute(f"CREATE USER {name} IDENTIFIED BY 'x'")
    yield Database(f"mysql://{name}:x@{database.url.rpartition('@')[2]}")
    database.execute(f"DROP USER {name}")


async def test_a_table_is_watched_by_the_columns_that_are_granted(database: Database, reader: Database) -> None:
    """Rows come with those; a key counts when all of its columns are among them, and types and NULL as ever."""
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, at datetime(6) NOT NULL, a int NOT NULL, secret int NOT NULL, "
        "level enum('b', 'a') NOT NULL, empty int, UNIQUE (a, secret), UNIQUE (level, id))",
        "INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', 5, 6, 'a', NULL)",
        f"GRANT SELECT (id, at, a, level, empty) ON orders TO {urlsplit(reader.url).username}",
    )
    arguments: dict[str, Any] = {"visibility": "none"}
    found = await reader.source(cursor=["at", "id"], **arguments).poll(None, 10, frozenset())
    row = {"id": 1, "at": NOON, "a": 5, "level": "a", "empty": None}
    assert list(found.items) == [row]
    for cursor, told in {"a": "no total order", "secret": "no column 'secret'", "level": "ENUM"}.items():
        with pytest.raises(SourceError, match=told):
            await reader.source(cursor=cursor, **arguments).poll(None, 10, frozenset())
    with pytest.raises(SourceError, match=r"1 rows have NULL in a cursor column \(empty\)"):
        await reader.source(cursor=["empty", "id"], **arguments).poll(None, 10, frozenset())
    await reader.aclose()


async def test_a_column_of_a_type_of_the_servers_own_is_no_hindrance(database: Database) -> None:
    """Addresses and the like come as the driver gives them, and serve in a cursor as the server sorts them."""
    ((version,),) = database.execute("SELECT VERSION()")
    address = "inet6" if "MariaDB" in version else "varchar(50)"
    database.execute(
        f"CREATE TABLE orders (id int NOT NULL, host {address} NOT NULL, spot point NOT NULL, PRIMARY KEY (host, id))"
    )
    for number, host in enumerate(("::1", "::2", "fe80::1")):
        database.execute(r"INSERT INTO orders VALUES (:number, :host, point(1, 2))", number=number, host=host)
    watcher = Watcher(lambda: database.source(cursor=["host", "id"]), limit=1)
    await watcher.drain()
    assert [item["host"] for item in watcher.items] == ["::1", "::2", "fe80::1"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"sql": "SELECT * FROM nowhere"}, r"nowhere.*doesn't exist.*create it, or correct the name"),
        ({"sql": "SELECT price FROM orders"}, r"Unknown column 'price'.*correct the name in cursor, columns or sql"),
        ({"sql": "SELECT FROM"}, r"error in your SQL syntax.*correct the query\. Dates and times"),
        ({"table": "mysql_of_nobody.orders"}, r"has no table mysql_of_nobody\.orders"),
    ],
)
async def test_what_cannot_be_read_is_told_with_the_remedy(
    database: Database, arguments: dict[str, str], told: str
) -> None:
    """The server's own words, what was read, where, and what to do."""
    make_orders(database)
    with pytest.raises(SourceError, match=told) as error:
        await database.source(**arguments).poll(None, 10, frozenset())
    assert "mysql://127.0.0.1" in str(error.value)


@pytest.mark.parametrize("given", [1, 2])
async def test_a_poll_reads_a_range_of_the_index_and_sorts_nothing(database: Database, given: int) -> None:
    """Above a cursor or a start, the plan is a range of the index in its order."""
    make_orders(database)
    rows: list[dict[str, Any]] = [
        {"id": number, "updated_at": NOON + dt.timedelta(seconds=number), "name": ""} for number in range(5000)
    ]
    database.insert("orders", rows)
    database.execute("CREATE INDEX orders_by ON orders (updated_at, id)", "ANALYZE TABLE orders")
    source = database.source()
    await source.poll(None, 1, frozenset())
    plan = source._plan
    assert plan is not None
    low = (NOON + dt.timedelta(seconds=4000), 7)[:given]
    with database.engine().connect() as connection:
        compiled = plan.keyset.above(given, 101).compile(dialect=connection.dialect)
        values = compiled.params | low_parameters(low)
        (row,) = connection.exec_driver_sql(f"EXPLAIN {compiled.string}", values).mappings().all()
    assert (row["type"], row["key"]) == ("range", "orders_by")
    assert "filesort" not in row["Extra"]
    assert int(row["rows"]) < 1500
