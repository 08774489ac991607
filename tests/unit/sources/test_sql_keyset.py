"""The statements of the SQL source in every dialect: quoted by it, bound, bounded, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql, sqlite

from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_clock import instant_before
from airflow_provider_incremental.sources.sql_columns import Column, Kind
from airflow_provider_incremental.sources.sql_keyset import Keyset, columns_of, low_parameters, sample_of

DIALECTS = {
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
    "sqlite": sqlite.dialect(),
    "mssql": mssql.dialect(),
    "oracle": oracle.dialect(),
}
EVIL = [
    'a"b; DROP TABLE t --',
    "a`b",
    "a'b",
    "a]b",
    "x) OR 1=1 --",
    ":p",
    "%(p)s",
    "50%",
    "select",
    "Ünï",
    "$1",
    "a\\b",
]
COLUMNS = [
    Column(name="updated_at", kind=Kind.TIMESTAMP, nullable=False),
    Column(name="id", kind=Kind.INTEGER, nullable=False),
    Column(name="name"),
]


def keyset(dialect: str, *, columns: Sequence[Column] = COLUMNS, cursor: int = 2, **arguments: Any) -> Keyset:
    names = [column.name for column in columns[:cursor]]
    what = {"unique": True} if arguments else {"table": "shop.orders"}
    selection = check_sql_arguments(**{"cursor": names, **what, **arguments})
    until = instant_before(dialect, columns[0], 1.0, None)
    return Keyset(dialect=dialect, selection=selection, columns=columns, cursor=columns[:cursor], until=until)


def written(dialect: str, statement: Any) -> str:
    return re.sub(r"\s+", " ", str(statement.compile(dialect=DIALECTS[dialect]))).strip()


ROWS = "SELECT source_rows.updated_at, source_rows.id, source_rows.name FROM shop.orders AS source_rows WHERE "
ORDER = "ORDER BY source_rows.updated_at, source_rows.id"
POLLS = {
    "postgresql": f"{ROWS}source_rows.updated_at < CAST(now() AS TIMESTAMP WITHOUT TIME ZONE) "
    "- %(cursor_edge_settle)s * interval '1 second' AND "
    f"(source_rows.updated_at, source_rows.id) > (%(cursor_low_0)s, %(cursor_low_1)s) {ORDER} LIMIT 11",
    "mysql": f"{ROWS}source_rows.updated_at < timestampadd(MICROSECOND, %s, convert_tz(utc_timestamp(6), %s, "
    "@@global.time_zone)) AND source_rows.updated_at >= %s AND (source_rows.updated_at > %s OR "
    f"source_rows.updated_at = %s AND source_rows.id > %s) {ORDER} LIMIT %s",
    "mssql": f"{ROWS}source_rows.updated_at < dateadd(millisecond, :dateadd_1, sysdatetime()) AND "
    "source_rows.updated_at >= :cursor_low_0 AND (source_rows.updated_at > :cursor_low_0 "
    f"OR source_rows.updated_at = :cursor_low_0 AND source_rows.id > :cursor_low_1) {ORDER}",
}


@pytest.mark.parametrize("dialect", POLLS)
def test_a_poll_is_a_bounded_ordered_range_of_the_index(dialect: str) -> None:
    """Rows are compared as one where an index serves that, else column by column; every value is bound."""
    text = written(dialect, keyset(dialect).above(2, 11))
    assert re.sub(r"TOP \S+ ", "", text) == POLLS[dialect]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [Kind.TIMESTAMP, Kind.INSTANT, Kind.INTEGER])
def test_every_statement_can_be_written_in_every_dialect(dialect: str, kind: Kind) -> None:
    """Polls, the end, the clock and the checks compile, with an upper edge where the first column is a timestamp."""
    columns = [Column(name="c", kind=kind), *COLUMNS[1:]]
    made = keyset(dialect, columns=columns)
    polls = [made.above(given, 11) for given in range(3)]
    others = [
        made.latest(),
        made.top(2, "cursor"),
        made.some(1),
        made.above(2, 11, "instant"),
        made.ahead(sa.func.now()),
        made.nulls,
        made.count_nulls(),
    ]
    texts = [written(dialect, statement) for statement in polls + others]
    edge = re.compile(r"localtimestamp|current_timestamp|now\(|utc_timestamp|strftime|systimestamp|sysdatetime", re.I)
    assert all(bool(edge.search(text)) == (kind is not Kind.INTEGER) for text in texts[:3])


@pytest.mark.parametrize("dialect", ["snowflake", "trino", "duckdb"])
@pytest.mark.parametrize("kind", [Kind.TIMESTAMP, Kind.INSTANT])
def test_a_dialect_that_is_not_installed_here_gets_standard_sql(dialect: str, kind: Kind) -> None:
    """The upper edge of other databases is made of standard words, or of the words they are known for."""
    until = instant_before(dialect, Column(name="c", kind=kind), 1.5, None)
    assert until is not None
    text = str(until)
    assert re.search(r"CURRENT_TIMESTAMP|LOCALTIMESTAMP", text)
    assert "-2" in (text + str(until.compile().params)) or "INTERVAL '2' SECOND" in text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", EVIL)
def test_a_name_is_quoted_and_never_sql(dialect: str, name: str) -> None:
    """Whatever stands in the name of a table, a schema or a column, it is one quoted name in the statement."""
    columns = [Column(name=name, kind=Kind.INTEGER), Column(name="plain")]
    made = keyset(dialect, columns=columns, cursor=1, table=f"{name.replace('.', '')}.t")
    preparer = DIALECTS[dialect].identifier_preparer
    quoted = preparer.quote(name)
    assert quoted != name
    text = written(dialect, made.above(1, 5))
    rest = text.replace(re.sub(r"\s+", " ", quoted), "")
    assert name not in rest
    assert "DROP" not in rest
    assert "OR 1=1" not in rest


def test_a_query_is_wrapped_as_it_is_with_its_parameters_bound() -> None:
    """Percent signs, casts and an ending comment survive; values stay out of the text."""
    sql = "SELECT id, a::text, '50%' FROM t WHERE b = :b -- the end"
    statement = keyset("postgresql", columns=COLUMNS[1:], cursor=1, sql=sql, parameters={"b": "x'; --"}).above(1, 5)
    compiled = statement.compile(dialect=DIALECTS["postgresql"])
    assert "(SELECT id, a::text, '50%%' FROM t WHERE b = %(b)s -- the end\n) AS source_rows" in compiled.string
    assert "x'" not in compiled.string


def test_columns_that_are_never_null_are_not_asked_about() -> None:
    """A condition on NULL is written for columns that may have one only."""
    assert "IS NOT NULL" not in written("sqlite", keyset("sqlite").above(0, 5))
    assert keyset("sqlite").nulls is None
    nullable = [Column(name="updated_at", kind=Kind.INTEGER), COLUMNS[1]]
    assert "source_rows.updated_at IS NOT NULL" in written("sqlite", keyset("sqlite", columns=nullable).above(2, 5))


def test_what_has_no_exact_form_is_read_as_text() -> None:
    """The database writes it, under the column's own name."""
    columns = [*COLUMNS[:2], Column(name="span", as_text=True)]
    text = written("postgresql", keyset("postgresql", columns=columns).above(0, 5))
    assert "CAST(source_rows.span AS TEXT) AS span" in text


def test_describing_reads_no_rows_and_a_sample_reads_one() -> None:
    """Names cost no row; types cost the cursor of one."""
    selection = check_sql_arguments(sql="SELECT * FROM t", cursor=["a", "b"], unique=True)
    assert written("sqlite", columns_of(selection, rows=False)).endswith("WHERE 1 = 0")
    assert "a IS NOT NULL AND source_rows.b IS NOT NULL LIMIT" in written("sqlite", sample_of(selection))


@pytest.fixture(scope="module")
def memory() -> Iterator[sa.engine.Connection]:
    """A database in memory for statements of any dialect that is close enough."""
    engine = sa.create_engine("sqlite://", future=True)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


cells = st.integers(0, 2)
rows = st.sets(st.tuples(cells, cells, cells), max_size=20)


@pytest.mark.parametrize("dialect", ["sqlite", "mssql"])
@given(rows=rows, low=st.lists(cells, min_size=1, max_size=3), limit=st.integers(1, 5))
def test_the_rows_above_a_cursor_are_those_of_a_comparison_of_tuples(
    memory: sa.engine.Connection, dialect: str, rows: set[tuple[int, ...]], low: list[int], limit: int
) -> None:
    """As rows or column by column, whole cursor or start: what is found is what Python's order of tuples says."""
    columns = [Column(name=name, kind=Kind.INTEGER, nullable=False) for name in "abc"]
    found = _found(memory, keyset(dialect, columns=columns, cursor=3, table="t").above(len(low), limit), rows, low)
    start = tuple(low)
    above = sorted(row for row in rows if (row > start if len(low) == 3 else row[: len(low)] >= start))
    assert found == above[:limit]


def _found(memory: sa.engine.Connection, statement: Any, rows: set[tuple[int, ...]], low: list[int]) -> list[Any]:
    memory.exec_driver_sql("DROP TABLE IF EXISTS t")
    memory.exec_driver_sql("CREATE TABLE t (a int, b int, c int)")
    for row in rows:
        memory.exec_driver_sql("INSERT INTO t VALUES (?, ?, ?)", row)
    return [tuple(row) for row in memory.execute(statement, low_parameters(low))]
