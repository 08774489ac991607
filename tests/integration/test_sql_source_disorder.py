"""Columns that MariaDB or MySQL sorts in one way and compares in another: refused before a row is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_preflight import preflight
from tests.integration.sql_stage import Database, Watcher

DISORDERED = {
    "enum('urgent', 'normal')": ("ENUM", "'urgent'", "AS CHAR"),
    "set('urgent', 'normal')": ("SET", "'normal,urgent'", "AS CHAR"),
    "bit(9)": ("BIT", "5", "AS UNSIGNED"),
    "float": ("FLOAT", "0.7", "AS DOUBLE"),
}
SELECTIONS: list[dict[str, Any]] = [
    {"table": "orders"},
    {"sql": "SELECT * FROM orders"},
    {"sql": "SELECT DISTINCT priority, id FROM orders"},
    {"sql": "SELECT max(priority) AS priority, id FROM orders GROUP BY id"},
]


@pytest.fixture
async def database(mysql_database: str) -> AsyncIterator[Database]:
    """An empty database."""
    made = Database(mysql_database)
    yield made
    await made.aclose()


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("arguments", SELECTIONS)
@pytest.mark.parametrize("kind", DISORDERED)
async def test_a_column_without_one_order_is_refused(
    database: Database, kind: str, arguments: dict[str, Any], rows: int
) -> None:
    """By the first poll and by preflight, in a table and in a query, with a row and without: with the cast to make."""
    name, value, cast = DISORDERED[kind]
    database.execute(f"CREATE TABLE orders (priority {kind} NOT NULL, id int NOT NULL, PRIMARY KEY (priority, id))")
    for number in range(rows):
        database.execute(f"INSERT INTO orders VALUES ({value}, {number})")
    cursor = {"cursor": ["priority", "id"], "visibility": "none"}
    told = rf"column priority is of type {name}.*take another column.*CAST\(priority {cast}\)"
    with pytest.raises(SourceError, match=told):
        await database.source(**arguments, **cursor).poll(None, 10, frozenset())
    selection = check_sql_arguments(**arguments, **cursor, unique="sql" in arguments)
    errors = [each for each in (await preflight(database.reader(), selection)).findings if each.level == "error"]
    assert [each.check for each in errors] == ["types"]
    assert f"CAST(priority {cast})" in errors[0].message


@pytest.mark.parametrize(
    ("kind", "values", "cast"),
    [
        ("enum('urgent', 'normal')", ["'normal'", "'urgent'"], "AS CHAR"),
        ("set('b', 'a')", ["''", "'a'", "'b'", "'b,a'"], "AS CHAR"),
        ("bit(9)", ["0", "2", "256", "300"], "AS UNSIGNED"),
        ("float", ["0.1", "0.3", "0.7", "16777216", "16777217.0 + 1"], "AS DOUBLE"),
    ],
)
async def test_the_cast_that_is_told_gives_every_row(
    database: Database, kind: str, values: list[str], cast: str
) -> None:
    """One row a poll, of a query with the cast: all of them, once, in its order."""
    database.execute(f"CREATE TABLE orders (priority {kind} NOT NULL, id int NOT NULL)")
    for number, value in reversed(list(enumerate(values))):
        database.execute(f"INSERT INTO orders VALUES ({value}, {number})")
    query = f"SELECT CAST(priority {cast}) AS place, id FROM orders"
    watcher = Watcher(lambda: database.source(sql=query, cursor=["place", "id"], visibility="none"), limit=1)
    await watcher.drain()
    assert watcher.ids == list(range(len(values)))
    assert await watcher.drain() == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("year", ["0", "1901", "1970", "2155"]),
        ("uuid", ["'10000000-0000-7000-8000-000000000001'", "'6f9619ff-8b86-1011-b42d-00c04fc964ff'"]),
        ("inet6", [r"'\:\:1'", r"'2\:\:'", r"'10\:\:1'"]),
        ("double", ["0.1", "0.3", "0.7"]),
    ],
)
async def test_types_with_one_order_still_serve(database: Database, kind: str, values: list[str]) -> None:
    """One row a poll, whatever order the database has: all of them, once."""
    database.execute(f"CREATE TABLE orders (place {kind} NOT NULL PRIMARY KEY, id int NOT NULL)")
    for number, value in enumerate(values):
        database.execute(f"INSERT INTO orders VALUES ({value}, {number})")
    query = "SELECT * FROM orders"  # of a table, SQLAlchemy does not know each of these types
    watcher = Watcher(lambda: database.source(sql=query, cursor="place", visibility="none"), limit=1)
    await watcher.drain()
    assert sorted(watcher.ids) == list(range(len(values)))
    assert await watcher.drain() == []
