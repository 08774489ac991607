"""The SQL source on PostgreSQL: its types, its time zones, its keys and its plans."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import asyncpg
import pytest
from sqlalchemy.dialects.postgresql.base import PGDialect

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from tests.integration.sql_stage import Database, Watcher, arguments_of, make_orders

NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture
async def database(postgres_database: str) -> AsyncIterator[Database]:
    """An empty database."""
    made = Database(postgres_database)
    yield made
    await made.aclose()


@pytest.fixture
def process_zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this process live in another time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def in_zone(database: Database, zone: str) -> None:
    name = database.url.rpartition("/")[2]
    database.execute(f"ALTER DATABASE {name} SET timezone = '{zone}'")


EXACT = {
    "smallint": "(-32768)::smallint",
    "bigint": "9223372036854775807::bigint",
    "boolean": "true",
    "numeric": "12345678901234567890.12345678901234567890::numeric",
    "nan": "'NaN'::numeric",
    "infinite": "'-Infinity'::numeric",
    "double": "0.1::float8",
    "double_nan": "'NaN'::float8",
    "real": "1.5::real",
    "words": "'a\"b'::text",
    "padded": "'ab'::char(5)",
    "bytes": "'\\x00ff'::bytea",
    "uuid": "'6f9619ff-8b86-d011-b42d-00c04fc964ff'::uuid",
    "day": "'2026-01-31'::date",
    "at": "'2026-01-31 12:00:00.000001'::timestamp",
    "instant": "'2026-01-31 12:00:00.000001+05:30'::timestamptz",
    "clock": "'23:59:59.999999'::time",
    "clock_zone": "'23:59:59.5+05:30'::timetz",
    "json": "'{\"a\": [1, null]}'::jsonb",
    "numbers": "array[1, null, 3]",
    "days": "array['2026-01-31'::date]",
    "nothing": "NULL::text",
}
AS_TEXT = {
    "interval": "'1 mon 2 days 03:00:00'::interval",
    "range": "'[1,5)'::int4range",
    "ranges": "'{[1,2)}'::int4multirange",
    "address": "'10.0.0.0/8'::inet",
    "addresses": "array['10.0.0.1'::inet]",
    "bits": "B'101'",
    "one": "'x'::\"char\"",
    "mood": "'so so'::mood",
    "moods": "array['so so'::mood]",
    "pair": "row(1, 'x')::pair",
    "point": "'(1,2)'::point",
    "money": "'12.50'::money",
    "words_of": "'a b'::tsvector",
    "position": "'0/16B3748'::pg_lsn",
    "transaction": "'17'::xid8",
    "table": "'pg_class'::regclass",
}


async def test_every_type_comes_as_itself_or_as_the_text_that_the_server_writes(database: Database) -> None:
    """What Python and JSON keep exactly has its type, through the batch log and back; all else is the server's text."""
    database.execute("CREATE TYPE mood AS ENUM ('so so')", "CREATE TYPE pair AS (a int, b text)")
    values = ", ".join(f'{value} AS "{name}"' for name, value in (EXACT | AS_TEXT).items())
    database.execute(f"CREATE TABLE orders AS SELECT 1 AS id, {values}", "ALTER TABLE orders ADD PRIMARY KEY (id)")
    texts = ", ".join(f'CAST("{name}" AS text)' for name in AS_TEXT)
    (text,) = database.execute(f"SELECT {texts} FROM orders")
    for arguments in ({"table": "orders"}, {"sql": "SELECT * FROM orders"}):
        found = await database.source(cursor="id", **arguments).poll(None, 10, frozenset())
        (item,) = loads(dumps(found.items))
        assert {name: item[name] for name in AS_TEXT} == dict(zip(AS_TEXT, text, strict=True))
        _check_exact(item)


def _check_exact(item: dict[str, Any]) -> None:
    assert item["numeric"] == Decimal("12345678901234567890.12345678901234567890")
    assert item["nan"].is_nan()
    assert item["double_nan"] != item["double_nan"]
    assert item["infinite"] == Decimal("-Infinity")
    assert (item["smallint"], item["bigint"], item["boolean"]) == (-32768, 2**63 - 1, True)
    assert (item["double"], item["real"], item["words"], item["padded"]) == (0.1, 1.5, 'a"b', "ab   ")
    assert (item["bytes"], item["uuid"]) == (b"\x00\xff", uuid.UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"))
    assert (item["day"], item["at"]) == (dt.date(2026, 1, 31), NOON.replace(microsecond=1))
    assert item["instant"] == dt.datetime(2026, 1, 31, 6, 30, 0, 1, tzinfo=dt.UTC)
    assert item["clock"] == dt.time(23, 59, 59, 999999)
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    assert item["clock_zone"] == dt.time(23, 59, 59, 500000, tzinfo=zone)
    assert item["clock_zone"].utcoffset() == dt.timedelta(hours=5, minutes=30)
    assert (item["json"], item["numbers"], item["nothing"]) == ('{"a": [1, null]}', [1, None, 3], None)
    assert item["days"] == [dt.date(2026, 1, 31)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("smallint", ["-1", "0", "1"]),
        ("bigint", ["-9223372036854775808", "9223372036854775807"]),
        ("numeric", ["-0.000000000000000000001", "0", "12345678901234567890.5"]),
        ("real", ["0.1", "0.2"]),
        ("double precision", ["'-Infinity'", "0.1", "1e300"]),
        ("text", ["''", "'a'", "'é'"]),
        ("varchar(10)", ["'a'", "'b'"]),
        ("char(4)", ["'a'", "'b'"]),
        ("uuid", ["'00000000-0000-0000-0000-000000000001'", "'ffffffff-0000-0000-0000-000000000001'"]),
        ("bytea", ["'\\x'", "'\\x00'", "'\\xff'"]),
        ("date", ["'0001-01-02'", "'2026-01-31'", "'9999-12-30'"]),
        ("timestamp", ["'0001-01-01 00:00:00.000001'", "'2026-01-31 12:00'"]),
        ("timestamptz", ["'1970-01-01 00:00Z'", "'2026-01-31 12:00Z'"]),
    ],
)
async def test_each_type_of_cursor_goes_on_where_it_was(database: Database, kind: str, values: list[str]) -> None:
    """Rows in the order of the column, one a poll, with the watermark through its JSON form between polls."""
    database.execute(f"CREATE TABLE orders (c {kind} PRIMARY KEY, number int)")
    for number, value in reversed(list(enumerate(values))):
        database.execute(f"INSERT INTO orders VALUES ({value}, {number})".replace("\\", "\\\\"))
    watcher = Watcher(lambda: database.source(cursor="c"), limit=1)
    await watcher.drain()
    assert [item["number"] for item in watcher.items] == list(range(len(values)))
    assert await watcher.drain() == []


@pytest.mark.parametrize("kind", ["interval", "boolean", "json", "inet", "int[]"])
async def test_a_type_without_a_usable_order_is_refused_as_a_cursor(database: Database, kind: str) -> None:
    """The message names the column's type and the way out."""
    database.execute(f"CREATE TABLE orders (id int PRIMARY KEY, c {kind})")
    with pytest.raises(SourceError, match=r"column c is of type .* cannot serve in a cursor"):
        await database.source(cursor=["c", "id"]).poll(None, 10, frozenset())


@pytest.mark.parametrize("value", ["'99999-01-01'::timestamp", "'0044-03-15 BC'::date", "'24:00:00'::time"])
async def test_a_value_that_python_cannot_hold_is_an_error_with_a_way_out(database: Database, value: str) -> None:
    """A year after 9999 or before 1 stops the poll, names the query and does not move the watermark."""
    sql = f"SELECT 1 AS id, {value} AS at"
    with pytest.raises(SourceError, match="casts it to text"):
        await database.source(sql=sql, cursor="id").poll(None, 10, frozenset())
    watched = database.source(sql=f"SELECT id, CAST(at AS text) AS at FROM ({sql}) AS s", cursor="id")
    assert (await watched.poll(None, 10, frozenset())).size == 1


@pytest.mark.parametrize("process_zone", ["UTC", "Asia/Kolkata", "America/New_York"], indirect=True)
@pytest.mark.usefixtures("process_zone")
async def test_40_a_naive_column_is_bounded_by_the_databases_own_wall_clock(database: Database) -> None:
    """Local time of UTC+5:30 in a column without zone: found at once, whatever the zone of this process."""
    in_zone(database, "Asia/Kolkata")
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, localtimestamp - interval '2 seconds', '')")
    database.execute("INSERT INTO orders VALUES (2, localtimestamp + interval '20 seconds', '')")
    watcher = Watcher(database.source)
    await watcher.drain()
    assert watcher.ids == [1]
    assert watcher.note is None


async def test_40_a_naive_column_of_another_zone_is_noted_and_mended_with_timezone(database: Database) -> None:
    """Rows hours ahead of the database's clock wait and are noted; with timezone= they come at once."""
    in_zone(database, "UTC")
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, timezone('Asia/Kolkata', now()) - interval '2 seconds', '')")
    watcher = Watcher(database.source)
    assert await watcher.poll() == []
    assert watcher.note is not None
    assert "held back: the last row's updated_at is 20" in watcher.note
    mended = Watcher(lambda: database.source(timezone="Asia/Kolkata"))
    await mended.drain()
    assert mended.ids == [1]
    assert mended.note is None


async def test_a_timezone_for_a_column_with_zone_is_refused(database: Database) -> None:
    """An instant needs no zone: the argument would be a mistake."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
    with pytest.raises(SourceError, match=r"timezone='Asia/Kolkata' says which wall clock updated_at holds"):
        await database.source(timezone="Asia/Kolkata").poll(None, 10, frozenset())


@pytest.mark.parametrize("process_zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("process_zone")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
async def test_43_a_naive_cursor_is_the_columns_value_bit_for_bit(database: Database, zone: str) -> None:
    """Times that this process's zone skips or has twice are positions like any other, between restarts too."""
    in_zone(database, zone)
    make_orders(database)
    times = ["2025-03-30 02:30:00.000001", "2025-10-26 02:30:00", "2025-10-26 02:30:00.999999", "2025-10-26 03:00:00"]
    for number, at in enumerate(times):
        database.execute(f"INSERT INTO orders VALUES ({number}, '{at}', '')")
    watcher = Watcher(database.source, limit=1)
    for number, at in enumerate(times):
        await watcher.poll()
        assert loads(watcher.watermark) == (dt.datetime.fromisoformat(at), number)
    assert watcher.ids == [0, 1, 2, 3]


@pytest.mark.parametrize("process_zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("process_zone")
async def test_43_an_instant_is_the_same_in_every_session(database: Database) -> None:
    """The hour that a zone has twice is in order of the instants, and the database's zone may change meanwhile."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
    database.execute("INSERT INTO orders VALUES (2, '2025-10-26 00:30Z'), (1, '2025-10-26 01:15Z')")
    watcher = Watcher(database.source, limit=1)
    await watcher.poll()
    in_zone(database, "Asia/Kolkata")
    await watcher.drain()
    assert watcher.ids == [2, 1]
    assert loads(watcher.watermark) == (dt.datetime(2025, 10, 26, 1, 15, tzinfo=dt.UTC), 1)


async def test_the_edge_lets_a_coarse_column_finish_its_second(database: Database) -> None:
    """In a column of whole seconds a row waits until no other one can get its stamp, even with settle=0."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp(0) NOT NULL)")
    ((at,),) = database.execute("SELECT CAST(date_trunc('second', localtimestamp) + interval '1 second' AS text)")
    database.execute("INSERT INTO orders VALUES (2, :at)", at=at)
    watcher = Watcher(database.source)
    async with asyncio.timeout(30):
        while not await watcher.poll():
            await asyncio.sleep(0.02)
    ((over,),) = database.execute("SELECT localtimestamp > CAST(:at AS timestamp) + interval '1 second'", at=at)
    assert over


async def test_a_start_in_the_wrong_zone_form_is_refused(database: Database) -> None:
    """A time for a column with zone has to name its zone, and one for a column without may not."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, a timestamp NOT NULL, b timestamptz NOT NULL)")
    with pytest.raises(SourceError, match="the column has no zone"):
        await database.source(cursor=["a", "id"]).at("2026-01-31T12:00:00Z")
    with pytest.raises(SourceError, match="say which one is meant"):
        await database.source(cursor=["b", "id"]).at("2026-01-31T12:00:00")
    assert (await database.source(cursor=["b", "id"]).at("2026-01-31T12:00:00Z")).cursor == (
        NOON.replace(tzinfo=dt.UTC),
    )


async def test_a_column_that_gets_a_zone_is_refused_by_a_source_that_is_polling(database: Database) -> None:
    """The type changes between two polls of one source: no cast with anybody's zone, but an error and the remedy."""
    make_orders(database)
    database.execute(f"INSERT INTO orders VALUES (1, '{NOON}', '')")
    source = database.source()
    watcher = Watcher(lambda: source)
    await watcher.drain()
    database.execute("ALTER TABLE orders ALTER COLUMN updated_at TYPE timestamptz")
    database.execute(f"INSERT INTO orders VALUES (2, '{NOON + dt.timedelta(days=1)}Z', '')")
    with pytest.raises(SourceError, match="The column's type has just changed"):
        await watcher.poll()
    with pytest.raises(SourceError, match=r"is a timestamp with zone, and the value .* of the watermark"):
        await watcher.poll()
    assert loads(watcher.watermark) == (NOON, 1)


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
    with pytest.raises(SourceError, match="watch a query whose cursor is unique"):
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


@pytest.mark.parametrize("value", [dt.date.min, dt.date.max])
async def test_a_date_that_the_driver_takes_for_infinity_is_no_position(database: Database, value: dt.date) -> None:
    """The first and the last date of Python would be sent as infinity: refused, instead of skipping or repeating."""
    database.execute(
        f"CREATE TABLE orders (c date, id int, PRIMARY KEY (c, id)); INSERT INTO orders VALUES ('{value}', 1)"
    )
    for source in (
        database.source(cursor=["c", "id"]).poll(None, 10, frozenset()),
        database.source(cursor=["c", "id"]).at(str(value)),
    ):
        with pytest.raises(SourceError, match="the driver takes it for infinity"):
            await source


async def test_a_query_that_returns_two_columns_of_one_name_is_refused(database: Database) -> None:
    """A row is delivered by name: the message says which name is there twice."""
    with pytest.raises(SourceError, match="two columns named 'a'"):
        await database.source(sql="SELECT 1 AS id, 2 AS a, 3 AS a", cursor="id").poll(None, 10, frozenset())


async def test_a_parameter_of_the_wrong_type_is_refused_in_our_words(database: Database) -> None:
    """A text for a number is not cast; the message says which query, and what a value has to be."""
    make_orders(database)
    source = database.source(sql="SELECT * FROM orders WHERE id > :least", parameters={"least": "x"})
    with pytest.raises(SourceError, match="a value has to have the column's type"):
        await source.poll(None, 10, frozenset())


async def test_nothing_in_a_value_becomes_sql(database: Database) -> None:
    """Texts that look like SQL are cursors and parameters like any other."""
    evil = "x'); DROP TABLE orders; --"
    database.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    database.insert("orders", [{"id": evil}, {"id": evil + "%(a)s $1 :b"}])
    sql = "SELECT * FROM orders WHERE id LIKE :like OR id = :evil"
    arguments = {"sql": sql, "parameters": {"like": "x'%", "evil": evil}, "cursor": "id"}
    watcher = Watcher(lambda: database.source(**arguments), limit=1)
    await watcher.drain()
    assert watcher.ids == [evil, evil + "%(a)s $1 :b"]
