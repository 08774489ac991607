"""The look beforehand makes the first poll: what that refuses is refused, in the same words, and nothing else is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_findings import Preflight
from airflow_provider_incremental.sources.sql_first_poll import FirstPoll
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_preflight import preflight
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_removal_arguments import RemovalArguments
from airflow_provider_incremental.sources.sql_rows import SqlRowSource
from airflow_provider_incremental.wiring.notifications import ConnectionNotifications
from tests.integration.sql_stage import Database, answering, arguments_of, make_orders, order


@pytest.fixture
def orders(watched: Database) -> Database:
    """A database of each kind with a table ``orders`` of one row."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    return watched


@asynccontextmanager
async def reading_as(database: Database, user: str, *grants: str) -> AsyncIterator[SqlReader]:
    """Lend a reader of a user of its own, who may see the open transactions."""
    database.execute(f"CREATE USER {user} PASSWORD 'x'", f"GRANT pg_read_all_stats TO {user}", *grants)
    reader = PostgresReader(arguments=answering(arguments_of(database.url) | {"user": user, "password": "x"}))
    try:
        yield reader
    finally:
        await reader.aclose()
        database.execute(f"DROP OWNED BY {user}", f"DROP USER {user}")


def selected(**arguments: Any) -> Any:
    return check_sql_arguments(**{"table": "orders", "cursor": ["updated_at", "id"], **arguments})


def errors(found: Preflight) -> Mapping[str, str]:
    return {finding.check: finding.message for finding in found.findings if finding.level == "error"}


async def refused_poll(reader: SqlReader, selection: Any) -> str:
    with pytest.raises(SourceError) as refused:
        await SqlRowSource(reader=reader, conn_id="shop", selection=selection).poll(None, 10, frozenset())
    return str(refused.value)


async def test_a_table_that_may_not_be_read_is_refused(watched_postgres: Database) -> None:
    """PostgreSQL describes it without SELECT; nobody is told that it can be read."""
    make_orders(watched_postgres)
    async with reading_as(watched_postgres, "outside") as reader:
        found = await preflight(reader, selected())
        assert errors(found) == {"access": await refused_poll(reader, selected())}
        assert "permission denied for table orders" in errors(found)["access"]
        assert [finding.check for finding in found.findings] == ["access"]


async def test_a_table_of_which_the_columns_may_be_read_is_fit(watched_postgres: Database) -> None:
    """SELECT on what is delivered is enough, as for a poll."""
    make_orders(watched_postgres)
    grant = "GRANT SELECT (id, updated_at) ON orders TO partly"
    async with reading_as(watched_postgres, "partly", grant) as reader:
        assert (await preflight(reader, selected(columns=["id", "updated_at"]))).ok
        assert (await preflight(reader, selected(payload="range"))).ok
        assert not (await preflight(reader, selected())).ok


@pytest.mark.parametrize("where", ["nope = 1", "id > nope.id", "id = 1 AND"])
@pytest.mark.parametrize("filled", [True, False], ids=["filled", "empty"])
async def test_a_condition_that_cannot_be_run_is_refused(orders: Database, where: str, *, filled: bool) -> None:
    """With rows or without any; and no other finding repeats it as something that could not be looked at."""
    if not filled:
        orders.execute("DELETE FROM orders")
    selection, reader = selected(where=where), orders.reader()
    found = await preflight(reader, selection)
    assert list(errors(found)) == ["poll"]
    assert not [finding for finding in found.findings if "could not be checked" in finding.message]
    if filled or orders.kind == "postgresql":
        assert errors(found)["poll"] == await refused_poll(reader, selection)


async def test_a_condition_with_its_parameters_is_run(orders: Database) -> None:
    """What the filter leaves is told."""
    for least, told in ((1, "finds 1 row"), (2, "finds no row yet")):
        found = await preflight(orders.reader(), selected(where="id >= :least", parameters={"least": least}))
        assert found.ok
        assert next(finding for finding in found.findings if finding.check == "poll").message.endswith(told)


async def test_rows_that_agree_in_the_cursor_are_refused(orders: Database) -> None:
    """The promise of a query is looked at in as many rows as a first poll has."""
    orders.insert("orders", [order(number) for number in range(2, 7)])
    divided = "id DIV 5" if orders.kind == "mysql" else "id / 5"
    selection = selected(table=None, sql=f"SELECT {divided} AS id FROM orders", cursor="id", unique=True)
    reader = orders.reader()
    found = await preflight(reader, selection)
    assert errors(found) == {"poll": await refused_poll(reader, selection)}
    assert "two rows have the same cursor" in errors(found)["poll"]
    found = await preflight(reader, selected(), first_poll=FirstPoll(limit=4))
    assert [each.message for each in found.findings if each.check == "poll"] == [
        "a first poll finds 4 rows; there are more"
    ]


async def test_a_zone_of_the_users_own_is_refused(watched_postgres: Database) -> None:
    """A column without zone, and a session whose zone need not be that of who writes."""
    make_orders(watched_postgres)
    grants = "GRANT SELECT ON orders TO elsewhere", "ALTER ROLE elsewhere SET timezone = 'Asia/Kolkata'"
    async with reading_as(watched_postgres, "elsewhere", *grants) as reader:
        found = await preflight(reader, selected())
        assert errors(found) == {"poll": await refused_poll(reader, selected())}
        assert "say with timezone=..." in errors(found)["poll"]
        assert (await preflight(reader, selected(timezone="UTC"))).ok


async def test_a_zone_that_the_database_cannot_use_is_refused(orders: Database) -> None:
    """MariaDB without its zones, SQLite in any case; PostgreSQL knows them."""
    selection, reader = selected(timezone="Europe/Berlin"), orders.reader()
    found = await preflight(reader, selection)
    if orders.kind == "postgresql":
        assert found.ok
    else:
        assert errors(found) == {"poll": await refused_poll(reader, selection)}
    assert not [finding for finding in found.findings if "could not be checked" in finding.message]


@pytest.mark.parametrize(
    ("first_poll", "said"),
    [
        (FirstPoll(start=["2026-01-31T12:00:00", "soon"]), "start='soon' is not a position"),
        (FirstPoll(start=["2026-01-31T12:00:00", 1, 2]), "has more values than the cursor"),
        (FirstPoll(removals=RemovalArguments(deleted_column="gone")), "deleted_column='gone'"),
        (FirstPoll(removals=RemovalArguments(deleted_column="name")), "does not say whether the row is deleted"),
        (FirstPoll(removals=RemovalArguments(primary_key=("name",))), "removals=True with primary_key=['name']"),
    ],
)
async def test_the_rest_of_the_first_poll_is_made(orders: Database, first_poll: FirstPoll, said: str) -> None:
    """Where it starts, and how rows that are gone are found."""
    found = await preflight(orders.reader(), selected(), first_poll=first_poll)
    assert said in errors(found)["poll"]


@pytest.mark.parametrize(
    "first_poll",
    [
        FirstPoll(start="latest"),
        FirstPoll(start=["2026-01-30T12:00:00"]),
        FirstPoll(removals=RemovalArguments(primary_key=("id",))),
    ],
)
async def test_what_the_first_poll_takes_is_taken(orders: Database, first_poll: FirstPoll) -> None:
    """And without a row yet as well."""
    assert (await preflight(orders.reader(), selected(), first_poll=first_poll)).ok
    orders.execute("DELETE FROM orders")
    empty = await preflight(orders.reader(), selected(), first_poll=first_poll)
    refused = orders.kind != "postgresql" and isinstance(first_poll.start, list)
    assert empty.ok is not refused


async def test_a_channel_where_nothing_notifies_is_refused(orders: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the first poll; on PostgreSQL it is listened to, and no more afterwards."""
    kind = "postgres" if orders.kind == "postgresql" else "mysql"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", orders.url.replace(orders.kind, kind, 1))
    notifications = ConnectionNotifications(conn_id="shop", channel="orders")
    found = await preflight(orders.reader(), selected(), first_poll=FirstPoll(notifications=notifications))
    assert found.ok is (orders.kind == "postgresql")
    assert found.ok or "only PostgreSQL notifies" in errors(found)["poll"]
