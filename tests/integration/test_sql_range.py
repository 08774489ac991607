"""A batch without rows: the condition that it gives finds exactly its rows, with each driver's parameters."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import asyncpg
import psycopg2
import pymysql
import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_range import RangeCondition, range_between
from tests.integration.sql_stage import NOON, Database, arguments_of, make_orders, order

STYLES = {
    "postgresql": ["pyformat", "format", "dollar", "named"],
    "mysql": ["pyformat", "format", "named"],
    "sqlite": ["qmark", "named"],
}


async def found(database: Database, style: str, condition: RangeCondition, table: str = "orders") -> list[Any]:
    """Run a query of the consumer's own with the driver that has this style."""
    sql, parameters = condition
    statement = f"SELECT id FROM {table} AS o WHERE {sql} ORDER BY id"
    if style == "dollar":
        connection = await asyncpg.connect(**arguments_of(database.url))
        rows = await connection.fetch(statement, *parameters)
        await connection.close()
    elif style in ("named", "qmark"):
        with database.engine().connect() as connection:
            if style == "named":
                rows = connection.execute(sa.text(statement), parameters).fetchall()
            else:
                rows = connection.exec_driver_sql(statement, tuple(parameters)).fetchall()
    else:
        connection = psycopg2.connect(database.url) if database.kind == "postgresql" else pymysql_to(database)
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            rows = cursor.fetchall()
        connection.close()
    return [row[0] for row in rows]


def pymysql_to(database: Database) -> Any:
    return pymysql.connect(**arguments_of(database.url))


async def test_the_condition_finds_the_batch(watched: Database) -> None:
    """Ties and limits: every batch's condition finds its rows, no row twice, in each style of parameters."""
    make_orders(watched)
    stamps = [NOON + dt.timedelta(microseconds=number // 4) for number in range(25)]
    watched.insert("orders", [order(number, at) for number, at in enumerate(stamps)])
    source = watched.source(payload="range")
    low, ids, more = None, [], True
    while more:
        batch = await source.poll(low, 3, frozenset())
        low_kept, high_kept = loads(dumps(low)), loads(dumps(batch.high))
        rows = range_between(source.watches, low_kept, high_kept)
        by_style = [
            await found(watched, style, rows.condition(style, alias="o", dialect=watched.kind))
            for style in STYLES[watched.kind]
        ]
        assert all(each == by_style[0] for each in by_style)
        assert len(by_style[0]) == batch.size
        ids += by_style[0]
        low, more = batch.high, batch.more
    assert ids == list(range(25))


async def test_a_start_is_where_its_first_batch_begins(watched: Database) -> None:
    """A start with a value for the first column only has the rows at that value in its first batch."""
    make_orders(watched)
    watched.insert("orders", [order(number, NOON + dt.timedelta(seconds=number // 2)) for number in range(6)])
    source = watched.source(payload="range")
    start = (await source.at([(NOON + dt.timedelta(seconds=1)).isoformat()])).cursor
    batch = await source.poll(start, 10, frozenset())
    style = STYLES[watched.kind][0]
    condition = range_between(source.watches, start, batch.high).condition(style, alias="o", dialect=watched.kind)
    assert await found(watched, style, condition) == [2, 3, 4, 5]


@pytest.mark.parametrize("style", STYLES["postgresql"])
async def test_a_range_of_uuids(watched_postgres: Database, style: str) -> None:
    """Of a type that not every driver knows."""
    numbers = [uuid.UUID(int=number) for number in range(1, 6)]
    watched_postgres.execute("CREATE TABLE things (id uuid PRIMARY KEY)")
    for number in numbers:
        watched_postgres.execute(f"INSERT INTO things VALUES ('{number}')")
    source = watched_postgres.source(table="things", cursor="id", payload="range")
    batch = await source.poll((numbers[0],), 2, frozenset())
    condition = range_between(source.watches, (numbers[0],), batch.high).condition(style, alias="o", dialect=None)
    assert [str(each) for each in await found(watched_postgres, style, condition, "things")] == [
        str(each) for each in numbers[1:3]
    ]


async def test_an_index_serves_the_condition(watched_postgres: Database) -> None:
    """On a large table the consumer's query reads its rows, not the table."""
    make_orders(watched_postgres)
    watched_postgres.execute(
        "INSERT INTO orders SELECT n, timestamp '2026-01-31 12:00' + n / 10 * interval '1 second', '' "
        "FROM generate_series(1, 20000) AS n",
        "CREATE INDEX orders_at ON orders (updated_at, id)",
        "ANALYZE orders",
    )
    low, high = (NOON + dt.timedelta(seconds=50), 505), (NOON + dt.timedelta(seconds=51), 512)
    source = watched_postgres.source(payload="range")
    sql, parameters = range_between(source.watches, low, high).condition("pyformat", alias=None, dialect=None)
    with psycopg2.connect(watched_postgres.url) as connection, connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN SELECT * FROM orders WHERE {sql}", parameters)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    connection.close()
    assert "orders_at" in plan
    assert "Seq Scan" not in plan
