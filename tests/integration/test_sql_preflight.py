"""The look at a selection before it is watched: each fault is found, on each server, and says what to do."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_advice import MANY_ROWS, advice
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_findings import Preflight
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_preflight import preflight
from airflow_provider_incremental.sources.sql_source import SqlSource
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.integration.sql_stage import NOON, Database, answering, arguments_of, make_orders, order


async def looked(database: Database, **arguments: Any) -> Preflight:
    unique = arguments.get("sql") is not None
    given = {"table": "orders", "cursor": ["updated_at", "id"], "unique": unique, **arguments}
    selection = check_sql_arguments(**given)
    return await preflight(database.reader(), selection)


def levels(found: Preflight) -> Mapping[str, str]:
    return {finding.check: finding.level for finding in found.findings}


def message(found: Preflight, check: str) -> str:
    return next(finding.message for finding in found.findings if finding.check == check)


def fill(database: Database, number: int = MANY_ROWS) -> None:
    """Insert rows a second apart, and let the server count them."""
    for start in range(0, number, 5000):
        rows = [order(each, NOON + dt.timedelta(seconds=each)) for each in range(start, min(start + 5000, number))]
        database.insert("orders", rows)
    if database.kind == "postgresql":
        with database.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("ANALYZE orders")


async def test_a_table_that_is_fit_has_nothing_but_ok(watched: Database) -> None:
    """Access, types, uniqueness, NULLs, index and clock: each is looked at, and each is in order."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    watched.execute("CREATE INDEX orders_at ON orders (updated_at, id)")
    found = await looked(watched)
    assert found.ok
    assert found.ddl == []
    told = "warning" if watched.kind == "sqlite" else "ok"
    expected = dict.fromkeys(("access", "types", "uniqueness", "nulls", "poll", "index", "clock"), "ok")
    assert levels(found) == {**expected, "visibility": told}
    assert "orders_at" in message(found, "index")


async def test_the_missing_index_is_printed_and_mends_what_was_found(watched: Database) -> None:
    """The DDL is the server's own: run as it is, it makes the finding go away."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    found = await looked(watched)
    assert levels(found)["index"] == "warning"
    (ddl,) = found.ddl
    assert ddl in message(found, "index")
    with watched.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(ddl)
    again = await looked(watched)
    assert levels(again)["index"] == "ok"
    assert again.ddl == []


async def test_the_printed_statement_takes_odd_names(watched: Database) -> None:
    """Signs that a driver or a shell would take for its own come as they are: what is printed runs."""
    quote = "`" if watched.kind == "mysql" else '"'
    at, orders = f"{quote}upd:at %d,Id  2{quote}", f"{quote}100%{quote}"
    with contextlib.closing(watched.engine().raw_connection()) as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE {orders} (id bigint PRIMARY KEY, {at} {watched.timestamp} NOT NULL)")
        connection.commit()
        given: dict[str, Any] = {"table": "100%", "cursor": ["upd:at %d,Id  2", "id"]}
        (ddl,) = (await looked(watched, **given)).ddl
        cursor.execute(ddl.replace(" CONCURRENTLY", ""))
        connection.commit()
    again = await looked(watched, **given)
    assert again.ok
    assert levels(again)["index"] == "ok"


@pytest.mark.parametrize(
    ("columns", "level"),
    [("updated_at, id, name", "ok"), ("id, updated_at", "warning"), ("name, updated_at, id", "warning")],
)
async def test_an_index_serves_when_it_leads_with_the_cursor(watched: Database, columns: str, level: str) -> None:
    """More columns behind do not matter; another order does."""
    make_orders(watched)
    watched.execute(f"CREATE INDEX orders_at ON orders ({columns})")
    assert levels(await looked(watched))["index"] == level


async def test_the_key_that_an_engine_appends_counts(watched: Database) -> None:
    """InnoDB and SQLite keep the key at the end of each index; PostgreSQL would sort the ties."""
    kind = {"postgresql": "bigint", "mysql": "bigint", "sqlite": "INTEGER"}[watched.kind]
    watched.execute(
        f"CREATE TABLE orders (id {kind} PRIMARY KEY, updated_at {watched.timestamp} NOT NULL)",
        "CREATE INDEX orders_at ON orders (updated_at)",
    )
    found = await looked(watched)
    assert levels(found)["index"] == ("warning" if watched.kind == "postgresql" else "ok")
    if watched.kind == "postgresql":
        assert "(updated_at) only" in message(found, "index")


async def test_every_fault_is_found_not_only_the_first(watched: Database) -> None:
    """No key and a type without order: both are said, and nothing that builds on them is."""
    watched.execute(f"CREATE TABLE orders (id bigint NOT NULL, updated_at {watched.timestamp} NOT NULL, flag boolean)")
    watched.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', NULL)")
    found = await looked(watched, columns=["updated_at", "id", "gone"], cursor=["updated_at", "id"])
    assert not found.ok
    assert levels(found) == {"access": "ok", "columns": "error"}
    assert "no column 'gone'; it has id, updated_at, flag" in message(found, "columns")
    found = await looked(watched)
    assert levels(found) == {"access": "ok", "types": "ok", "uniqueness": "error"}
    assert "add a primary key or a unique index" in message(found, "uniqueness")


async def test_a_column_without_order_is_refused(watched_postgres: Database) -> None:
    """The message names the column, its type and what serves instead."""
    watched_postgres.execute("CREATE TABLE orders (id bigint PRIMARY KEY, updated_at interval NOT NULL)")
    found = await looked(watched_postgres)
    assert levels(found)["types"] == "error"
    assert "column updated_at is of type interval" in message(found, "types")


async def test_nulls_are_counted(watched: Database) -> None:
    """Rows with NULL have no place in the order; a column that may be NULL is worth a word before the first one."""
    watched.execute(f"CREATE TABLE orders (id bigint PRIMARY KEY, updated_at {watched.timestamp} NULL)")
    assert levels(await looked(watched))["nulls"] == "warning"
    watched.execute("INSERT INTO orders (id) VALUES (1), (2)")
    found = await looked(watched)
    assert levels(found)["nulls"] == "error"
    assert message(found, "nulls").startswith("2 rows have NULL in a cursor column (updated_at)")


async def test_what_cannot_be_reached_is_a_finding(watched: Database) -> None:
    """No table: the one finding is the database's answer and the remedy."""
    found = await looked(watched, table="gone")
    assert levels(found) == {"access": "error"}
    assert "gone" in message(found, "access")
    assert "create it" in message(found, "access")


async def test_a_query_is_the_authors_promise(watched: Database) -> None:
    """Its uniqueness and its index are not known: that is said, and it may be polled."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    found = await looked(watched, table=None, sql="SELECT id, updated_at FROM orders", cursor=["id"])
    assert found.ok
    assert levels(found)["uniqueness"] == "warning"
    assert levels(found)["index"] == "warning"
    assert found.ddl == []


async def test_a_view_has_no_index_of_its_own(watched: Database) -> None:
    """Nobody is told to make an index on it."""
    make_orders(watched)
    watched.execute("CREATE VIEW seen AS SELECT id, updated_at FROM orders")
    found = await looked(watched, table=None, sql="SELECT * FROM seen", cursor=["id"])
    assert found.ddl == []


async def test_a_clock_that_goes_wrong_is_told(watched: Database) -> None:
    """By how much this machine's differs from the database's, and what that means."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    selection = check_sql_arguments(table="orders", cursor=["updated_at", "id"])
    ahead = FakeClock(start=dt.datetime.now(dt.UTC) + dt.timedelta(hours=2))
    found = await preflight(watched.reader(), selection, clock=ahead)
    assert levels(found)["clock"] == "warning"
    assert "s ahead of the database's" in message(found, "clock")


async def test_stamps_from_the_future_are_told(watched: Database) -> None:
    """The last row waits until the database's clock has passed it; the finding asks whose clock or zone that is."""
    make_orders(watched)
    watched.insert("orders", [order(1, NOON + dt.timedelta(days=3650))])
    found = await looked(watched)
    assert levels(found)["stamps"] == "warning"
    assert "timezone=" in message(found, "stamps")


async def test_the_plan_of_a_large_table_is_the_servers_word(watched_postgres: Database) -> None:
    """Without an index PostgreSQL itself says that it reads and sorts everything; with one, only what is new."""
    make_orders(watched_postgres)
    fill(watched_postgres)
    found = await looked(watched_postgres)
    assert levels(found)["plan"] == "warning"
    assert "reads all of orders" in message(found, "plan")
    with watched_postgres.engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(found.ddl[0])
    found = await looked(watched_postgres)
    assert levels(found)["plan"] == "ok"
    assert "orders_updated_at_id_idx" in message(found, "plan")


async def test_the_plan_overrules_the_catalogue(watched_postgres: Database) -> None:
    """An index whose condition is the query's own, or one below a view, serves though the catalogue does not say so."""
    make_orders(watched_postgres)
    fill(watched_postgres)
    watched_postgres.execute(
        "CREATE INDEX orders_at ON orders (updated_at, id)",
        "CREATE VIEW seen AS SELECT id, updated_at FROM orders",
    )
    found = await looked(watched_postgres, table=None, sql="SELECT * FROM seen")
    assert levels(found)["plan"] == "ok"
    assert "index" not in levels(found)


async def test_advice_for_the_status_only_where_it_matters(watched: Database) -> None:
    """A small table is read as fast without an index; a large one is not, and the status says so."""
    make_orders(watched)
    fill(watched, 100)
    source = watched.source()
    async with source._checked_plan() as plan:
        assert await advice(watched.reader(), plan) is None
        watched.execute("DELETE FROM orders")
        fill(watched)
        told = await advice(watched.reader(), plan)
        assert told is not None
        assert "no index gives the rows" in told
        watched.execute("CREATE INDEX orders_at ON orders (updated_at, id)")
        assert await advice(watched.reader(), plan) is None


async def test_whether_open_transactions_can_be_seen_is_told(watched_postgres: Database) -> None:
    """A cursor that needs no look is in order; a user who may not look is an error, with the GRANT."""
    make_orders(watched_postgres)
    watched_postgres.execute(
        "ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()",
        "CREATE USER blinded PASSWORD 'x'",
        "GRANT SELECT ON orders TO blinded",
    )
    reader = PostgresReader(
        arguments=answering(arguments_of(watched_postgres.url) | {"user": "blinded", "password": "x"})
    )
    for cursor, level, told in (
        (["xid", "id"], "ok", "begins with their transaction"),
        (["id"], "error", "GRANT pg_read_all_stats TO blinded"),
    ):
        found = await preflight(reader, check_sql_arguments(table="orders", cursor=cursor))
        assert levels(found)["visibility"] == level
        assert told in message(found, "visibility")
    await reader.aclose()
    watched_postgres.execute("DROP OWNED BY blinded", "DROP USER blinded")


async def test_the_status_of_a_watermark_has_the_advice(watched_postgres: Database) -> None:
    """As long as there is nothing more urgent to note."""
    make_orders(watched_postgres)
    fill(watched_postgres)
    selection = check_sql_arguments(table="orders", cursor=["updated_at", "id"], visibility="none")
    source = SqlSource(reader=watched_postgres.reader(), conn_id="shop", selection=selection)
    for _ in range(2):
        found = await source.poll(None, 10, frozenset())
        assert found.note is not None
        assert "each poll reads and sorts the whole table" in found.note
