"""The statements of the SQL source as the dialects of five databases write them that no test reads for real."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_clock import instant_before
from airflow_provider_incremental.sources.sql_columns import Column, Kind
from airflow_provider_incremental.sources.sql_indexes import index_ddl
from airflow_provider_incremental.sources.sql_keyset import Keyset, columns_of, sample_of

DIALECTS = {name: registry.load(name)() for name in ("mssql", "oracle", "snowflake", "trino", "duckdb")}
AT, ID = Column(name="updated_at", kind=Kind.TIMESTAMP, nullable=False), Column(name="id", kind=Kind.INTEGER)

AFTER = "updated_at >= :low_0 AND (updated_at > :low_0 OR updated_at = :low_0 AND id > :low_1)"
EDGES = {
    "mssql": "updated_at < dateadd(millisecond, :dateadd_1, sysdatetime())",
    "oracle": "updated_at < CAST(SYSTIMESTAMP AS TIMESTAMP) - numtodsinterval(:numtodsinterval_1, :numtodsinterval_2)",
    "snowflake": "updated_at < dateadd(second, :dateadd_1, LOCALTIMESTAMP)",
    "trino": "updated_at < LOCALTIMESTAMP - INTERVAL '2' SECOND",
    "duckdb": "updated_at < LOCALTIMESTAMP - INTERVAL '2' SECOND",
}
ENDS = {
    "mssql": "",
    "oracle": " FETCH FIRST :n ROWS ONLY",
    "snowflake": " LIMIT :n",
    "trino": " LIMIT :n",
    "duckdb": " LIMIT :n",
}


def keyset(dialect: str, first: Column = AT, **selected: Any) -> Keyset:
    selection = check_sql_arguments(**({"table": "shop.orders"} | selected), cursor=[first.name, "id"], unique=True)
    until = instant_before(dialect, first, 1.5, None)
    return Keyset(dialect=dialect, selection=selection, columns=[first, ID], cursor=[first, ID], until=until)


def written(dialect: str, statement: Any) -> str:
    """Write a statement in a dialect, in one line, with each parameter as a colon and its name."""
    text = " ".join(str(statement.compile(dialect=DIALECTS[dialect])).split())
    text = re.sub(r"%\((\w+)\)s", r":\1", text)
    text = re.sub(r"__\[POSTCOMPILE_\w+\]|:param_\d+", ":n", text)
    text = text.replace("source_rows.", "").replace(" AS source_rows", "").replace("cursor_low_", "low_")
    # How SQLAlchemy 1.4 limits on Oracle.
    text = re.sub(
        r"^SELECT anon_1\.\w+, anon_1\.\w+ FROM \((.*)\) anon_1 WHERE ROWNUM <= :n$", rf"\1{ENDS['oracle']}", text
    )
    return text.replace("updated_at AS updated_at, id AS id", "updated_at, id")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_poll(dialect: str) -> None:
    """Bounded on both sides, in the cursor's order, limited; every value is bound."""
    top = "TOP :n " if dialect == "mssql" else ""
    table = "shop.orders source_rows" if dialect == "oracle" else "shop.orders"
    text = written(dialect, keyset(dialect).above(2, 11))
    head, _, where = text.partition(" WHERE ")
    assert head == f"SELECT {top}updated_at, id FROM {table}"
    assert EDGES[dialect] in where
    assert AFTER in where
    assert where.endswith(f" ORDER BY updated_at, id{ENDS[dialect]}")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_end_and_the_sample(dialect: str) -> None:
    """The last row downwards; one row for the types; no row for the names."""
    last = written(dialect, keyset(dialect).latest())
    assert f" ORDER BY updated_at DESC, id DESC{ENDS[dialect]}" in last
    selection = check_sql_arguments(table="shop.orders", cursor=["updated_at", "id"])
    one = written(dialect, sample_of(selection))
    assert ("TOP :n" if dialect == "mssql" else ENDS[dialect]) in one
    assert written(dialect, columns_of(selection, rows=False)).endswith("WHERE 1 = 0")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_column_can_lead_a_cursor(dialect: str, kind: Kind) -> None:
    """An instant has an upper edge with a zone, other timestamps one without, and nothing else has any."""
    made = keyset(dialect, Column(name="updated_at", kind=kind, nullable=False))
    text = written(dialect, made.above(1, 5))
    assert "updated_at >= :low_0" in text
    edge = re.search(r"updated_at < (.*?)(LOCAL|CURRENT_|SYS)", text, re.IGNORECASE)
    assert (edge is not None) == (kind.name.endswith(("TIMESTAMP", "INSTANT")))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_query_is_read_as_a_part_of_ours(dialect: str) -> None:
    """As it is, with its own parameters bound."""
    sql = "SELECT id, updated_at FROM orders WHERE shop = :shop"
    text = written(dialect, keyset(dialect, table=None, sql=sql, parameters={"shop": "x"}).above(0, 5))
    assert f"FROM ({sql} )" in text.replace(" AS source_rows", "")


@pytest.mark.parametrize(
    ("dialect", "quoted"),
    [
        ("mssql", "[a]]b]"),
        ("oracle", '"a]b"'),
        ("snowflake", '"a]b"'),
        ("trino", '"a]b"'),
        ("duckdb", '"a]b"'),
    ],
)
def test_names_are_quoted(dialect: str, quoted: str) -> None:
    """As each database quotes."""
    assert quoted in written(dialect, keyset(dialect, Column(name="a]b", kind=Kind.INTEGER)).above(0, 5))


@pytest.mark.parametrize(
    ("dialect", "ddl"),
    [
        ("mssql", "CREATE INDEX [Orders_at_select_idx] ON shop.[Orders] (at, [select])"),
        ("oracle", 'CREATE INDEX shop."Orders_at_select_idx" ON shop."Orders" (at, "select")'),
        ("snowflake", 'ALTER TABLE shop."Orders" CLUSTER BY (at, "select")'),
        ("postgresql", 'CREATE INDEX CONCURRENTLY "Orders_at_select_idx" ON shop."Orders" (at, "select")'),
        ("mysql", "CREATE INDEX `Orders_at_select_idx` ON shop.`Orders` (at, `select`)"),
        ("trino", None),
        ("duckdb", None),
    ],
)
def test_the_index_that_serves_a_poll(dialect: str, ddl: str | None) -> None:
    """Each database's own statement, and none where there are no indexes for that."""
    selection = check_sql_arguments(table="shop.Orders", cursor=["at", "select"])
    assert index_ddl(dialect, selection) == ddl


@pytest.mark.parametrize("dialect", ["mssql", "oracle", "snowflake", "postgresql", "mysql", "mariadb", "sqlite"])
def test_the_ddl_of_an_index_has_names_as_they_are(dialect: str) -> None:
    """It is for people to run: a percent sign is not doubled, as for a driver, and blanks stay as many."""
    ddl = index_ddl(dialect, check_sql_arguments(table="100%.a  b", cursor=["at %d", "Id"]))
    assert ddl is not None
    assert "%%" not in ddl
    assert all(name in ddl for name in ("100%", "a  b", "at %d", "Id"))


def test_the_name_of_an_index_is_one_that_every_database_takes() -> None:
    """However long the names of the table and its columns are."""
    ddl = index_ddl("oracle", check_sql_arguments(table="t" * 60, cursor=["c" * 60]))
    assert ddl is not None
    assert len(ddl.split()[2].strip('"')) == 30


def test_the_edge_of_an_instant_has_a_zone() -> None:
    """Nowhere does it become the wall clock of a session."""
    column = Column(name="at", kind=Kind.INSTANT)
    texts = {
        name: str(sa.select(instant_before(name, column, 1.0, None)).compile(dialect=each))
        for name, each in DIALECTS.items()
    }
    words = {"mssql": "sysdatetimeoffset()", "oracle": "SYSTIMESTAMP"}
    assert all(words.get(name, "CURRENT_TIMESTAMP").lower() in text.lower() for name, text in texts.items())
