"""The SQL source on PostgreSQL: its keys and its plans."""

from __future__ import annotations

import datetime as dt

import asyncpg
import pytest
from sqlalchemy.dialects.postgresql.base import PGDialect

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from tests.integration.sql_stage import Database, Watcher, arguments_of, make_orders

NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture
def database(watched_postgres: Database) -> Database:
    """An empty database."""
    return watched_postgres


KEYS = {
    "PRIMARY KEY (updated_at, id)": None,
    "UNIQUE (id, updated_at)": None,
    "UNIQUE (id) DEFERRABLE": None,
    "UNIQUE (id) INCLUDE (name)": None,
    "UNIQUE (name, id)": "no primary key and no unique index",
    "UNIQUE (name) INCLUDE (id)": "no primary key and no unique index",
    "UNIQUE (nullable)": "its unique column 'nullable' may be NULL",
}


@pytest.mark.parametrize("key", KEYS)
async def test_47_only_a_key_within_the_cursor_makes_it_total(database: Database, key: str) -> None:
    """A key of cursor columns that are never NULL is accepted in any form; one with other columns is none."""
    columns = "id int NOT NULL, nullable int, name text NOT NULL, updated_at timestamp NOT NULL"
    database.execute(f"CREATE TABLE orders ({columns}, {key})")
    source = database.source(cursor=["updated_at", "nullable"] if "nullable" in key else ["updated_at", "id"])
    if KEYS[key] is None:
        assert (await source.poll(None, 10, frozenset())).size == 0
    else:
        with pytest.raises(SourceError, match=KEYS[key]):
            await source.poll(None, 10, frozenset())


@pytest.mark.parametrize("index", ["(id) WHERE id > 5", "((id + 1))", "(lower(name))"])
async def test_47_a_partial_or_computed_index_is_no_key(database: Database, index: str) -> None:
    """A unique index over some rows, or over an expression, says nothing of all rows' columns."""
    database.execute("CREATE TABLE orders (id int NOT NULL, name text NOT NULL, updated_at timestamp NOT NULL)")
    database.execute(f"CREATE UNIQUE INDEX ON orders {index}")
    with pytest.raises(SourceError, match="no total order"):
        await database.source().poll(None, 10, frozenset())


async def test_47_an_index_that_tells_apart_what_the_column_calls_equal_is_no_key(database: Database) -> None:
    """Where 'a' and 'A' share a place by the column's collation, a unique index by another one may let both in."""
    database.execute(
        "CREATE COLLATION any_case (provider = libc, locale = 'C')",
        "CREATE TABLE orders (name text COLLATE any_case NOT NULL)",
        'CREATE UNIQUE INDEX apart ON orders (name COLLATE "C")',
    )
    assert (await database.source(cursor="name").poll(None, 1, frozenset())).size == 0
    # What ICU's collations may be, and this server's build has none of: the catalogue is all that is looked at.
    database.execute("UPDATE pg_collation SET collisdeterministic = false WHERE collname = 'any_case'")
    with pytest.raises(SourceError, match="no total order"):
        await database.source(cursor="name").poll(None, 1, frozenset())
    database.execute("CREATE UNIQUE INDEX alike ON orders (name)")
    assert (await database.source(cursor="name").poll(None, 1, frozenset())).size == 0


async def test_47_a_key_of_a_parent_says_nothing_of_the_tables_that_inherit(database: Database) -> None:
    """Rows of children are read with the parent's, under no key of its own; as partitions they are."""
    make_orders(database)
    database.execute("CREATE TABLE more () INHERITS (orders)")
    with pytest.raises(SourceError, match="no total order"):
        await database.source().poll(None, 10, frozenset())


async def test_46_a_not_null_that_was_never_checked_is_not_believed(database: Database) -> None:
    """A constraint that was added NOT VALID lets old rows have NULL: they are found."""
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp)",
        "INSERT INTO orders VALUES (1, NULL)",
        "ALTER TABLE orders ADD CONSTRAINT stamped NOT NULL updated_at NOT VALID",
    )
    with pytest.raises(SourceError, match="1 rows have NULL"):
        await database.source().poll(None, 10, frozenset())


@pytest.mark.parametrize("depth", [1, 2])
async def test_46_a_not_null_that_children_do_not_have_is_not_believed(database: Database, depth: int) -> None:
    """A constraint of the parent alone lets rows of tables that inherit from it have NULL: they are found."""
    database.execute(
        "CREATE TABLE orders (id int, updated_at timestamp, CONSTRAINT stamped NOT NULL updated_at NO INHERIT)",
        "CREATE TABLE orders_1 (a int, CHECK (a > 0)) INHERITS (orders)",
        "CREATE TABLE orders_2 () INHERITS (orders_1)",
        f"INSERT INTO orders_{depth} VALUES (1, NULL)",
    )
    with pytest.raises(SourceError, match="1 rows have NULL"):
        await database.source(cursor="updated_at", unique=True).poll(None, 10, frozenset())


async def test_46_a_not_null_that_children_have_as_well_is_believed(database: Database) -> None:
    """Neither a table with children nor one with partitions is searched for NULL where none can be."""
    database.execute(
        "CREATE TABLE orders (id int NOT NULL, gone int)",
        "CREATE TABLE more () INHERITS (orders)",
        "CREATE TABLE parted (id int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (9)",
        "ALTER TABLE orders DROP gone",
    )
    for table in ("orders", "parted"):
        selection = check_sql_arguments(table=table, cursor="id", unique=True)
        assert [column.nullable for column in (await database.reader().describe(selection)).columns] == [False]


async def test_a_view_is_watched_as_a_query_and_a_partitioned_table_as_a_table(database: Database) -> None:
    """A view has no key to check, which the message says; a partitioned table has one for all its parts."""
    database.execute(
        "CREATE TABLE orders (id int, updated_at timestamp, PRIMARY KEY (updated_at, id)) "
        "PARTITION BY RANGE (updated_at)",
        "CREATE TABLE early PARTITION OF orders FOR VALUES FROM (MINVALUE) TO ('2026-01-01')",
        "CREATE TABLE late PARTITION OF orders FOR VALUES FROM ('2026-01-01') TO (MAXVALUE)",
        "CREATE VIEW seen AS SELECT * FROM orders",
        "INSERT INTO orders VALUES (2, '2025-12-31'), (1, '2026-01-01')",
    )
    with pytest.raises(SourceError, match="give unique=True if no two rows agree"):
        await database.source(table="seen").poll(None, 10, frozenset())
    for arguments in ({"sql": "SELECT * FROM seen"}, {"table": "public.orders"}):
        watcher = Watcher(lambda arguments=arguments: database.source(**arguments), limit=1)
        await watcher.drain()
        assert watcher.ids == [2, 1]


@pytest.mark.parametrize("prefix", [True, False])
async def test_a_poll_reads_a_range_of_the_index_and_sorts_nothing(database: Database, prefix: bool) -> None:
    """Above a cursor or a start, in 50,000 rows, the plan is one index scan up to the limit."""
    make_orders(database)
    database.execute(
        "INSERT INTO orders SELECT n, timestamp '2026-01-01' + n * interval '1 second', '' "
        "FROM generate_series(1, 50000) n",
        "CREATE INDEX orders_by ON orders (updated_at, id)",
        "ANALYZE orders",
    )
    source = database.source()
    await source.poll(None, 1, frozenset())
    plan = source._plan
    assert plan is not None
    five = dt.datetime.fromisoformat("2026-01-01 05:00")
    low = (five,) if prefix else (five, 7)
    compiled = plan.keyset.above(len(low), 1001).compile(dialect=PGDialect(paramstyle="pyformat"))
    values = compiled.params | low_parameters(low)
    text = compiled.string % {name: f"${number}" for number, name in enumerate(values, 1)}
    connection = await asyncpg.connect(**arguments_of(database.url))
    lines = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {text}", *values.values()))
    await connection.close()
    assert "Index Scan using orders_by" in lines
    assert "Sort" not in lines
    assert "Filter" not in lines


async def test_an_index_that_is_dropped_and_a_column_that_is_added_are_noticed(database: Database) -> None:
    """The first poll's check is repeated now and then, while nothing fails."""
    make_orders(database)
    source = database.source()
    watcher = Watcher(lambda: source)
    database.execute("ALTER TABLE orders ADD COLUMN extra int DEFAULT 5")
    for number in range(1, 130):
        database.execute(f"INSERT INTO orders VALUES ({number}, '{NOON}', '')")
        await watcher.poll()
    assert watcher.ids == list(range(1, 130))
    database.execute("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    outcomes = [await outcome(watcher) for _ in range(101)]
    assert "no total order" in outcomes[-1]


async def outcome(watcher: Watcher) -> str:
    """Poll once; return the words of the error, if it is one."""
    try:
        await watcher.poll()
    except SourceError as error:
        return str(error)
    return ""
