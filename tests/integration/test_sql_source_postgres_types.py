"""The SQL source on PostgreSQL: every type comes as it is, or as the text that the server writes."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import dumps, loads
from tests.integration.sql_stage import Database, Watcher, make_orders


@pytest.fixture
def database(watched_postgres: Database) -> Database:
    """An empty database."""
    return watched_postgres


NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


EXACT = {
    "smallint": "(-32768)::smallint",
    "bigint": "9223372036854775807::bigint",
    "boolean": "true",
    "numeric": "12345678901234567890.12345678901234567890::numeric",
    "places": "1.50::numeric(12,2)",
    "tiny": "1e-16383::numeric",
    "amounts": "array[[1.50, NULL], ['NaN', '-Infinity']]::numeric[]",
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
    "transaction": "'18446744073709551615'::xid8",
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
    assert (str(item["places"]), item["tiny"]) == ("1.50", Decimal("1e-16383"))
    assert repr(item["amounts"]) == repr([[Decimal("1.50"), None], [Decimal("NaN"), Decimal("-Infinity")]])
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


@pytest.mark.parametrize("kind", ["float8", "float4", "numeric"])
async def test_nan_is_called_that(database: Database, kind: str) -> None:
    """It comes last by PostgreSQL's order, and nothing is above it; the condition that is offered leaves it out."""
    database.execute(f"CREATE TABLE orders (id int, n {kind}, PRIMARY KEY (n, id))")
    database.execute("INSERT INTO orders VALUES (1, 'NaN'), (2, 5)")
    with pytest.raises(SourceError) as error:
        await database.source(cursor=["n", "id"]).poll(None, 10, frozenset())
    told = re.search(
        r"column n \(of type .*\) has .*nan.* in a row: it is not a number; .*where=\"(.*)\"", str(error.value), re.I
    )
    assert told is not None
    found = await database.source(cursor=["n", "id"], where=told[1]).poll(None, 10, frozenset())
    assert [item["id"] for item in found.items] == [2]


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
