"""The condition of a batch's rows, as text for each style of parameters and as a clause."""

from __future__ import annotations

import uuid

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.watermark import Watches
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_range import RowRange, range_between
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_recorded import Recorded
from airflow_provider_incremental.sources.sql_rows import SqlRowSource

TWO = RowRange(("at", "id"), (1, 2), (3, 4))


def text(given: RowRange, style: str, **options: object) -> tuple[str, object]:
    sql, parameters = given.condition(style, **{"alias": None, "dialect": None, **options})
    return sql, parameters


@pytest.mark.parametrize(
    ("style", "sql", "parameters"),
    [
        ("named", ":batch_low_0 < id AND id <= :batch_high_0", {"batch_low_0": 5, "batch_high_0": 9}),
        ("pyformat", "%(batch_low_0)s < id AND id <= %(batch_high_0)s", {"batch_low_0": 5, "batch_high_0": 9}),
        ("format", "%s < id AND id <= %s", [5, 9]),
        ("qmark", "? < id AND id <= ?", [5, 9]),
        ("numeric", ":1 < id AND id <= :2", [5, 9]),
        ("dollar", "$1 < id AND id <= $2", [5, 9]),
    ],
)
def test_each_style_of_parameters(style, sql, parameters):
    """A dictionary where they have names, else a list in the order of their marks."""
    low, high = sql.split(" AND ")
    mark = low.split()[0]
    assert text(RowRange(("id",), (5,), (9,)), style) == (f"(id > {mark} AND {high})", parameters)


def test_a_cursor_of_two_columns_is_compared_column_by_column():
    """Every database understands that, and an index serves the first condition; a NULL behind it does not slip in."""
    sql, parameters = text(TWO, "qmark")
    assert sql == (
        "(at >= ? AND (at > ? OR at = ? AND id > ?) AND at <= ? AND (at < ? OR at = ? AND id <= ?) AND id IS NOT NULL)"
    )
    assert parameters == [1, 1, 1, 2, 3, 3, 3, 4]
    assert text(TWO, "dollar")[1] == [1, 2, 3, 4]


def test_without_a_low_there_is_no_lower_bound():
    """The first batch of a watermark that began at the very start."""
    assert text(RowRange(("id",), (), (9,)), "qmark") == ("(id <= ?)", [9])


def test_a_start_with_fewer_values_is_included():
    """The rows at it were still to be delivered."""
    sql, parameters = text(RowRange(("at", "id"), (1,), (3, 4)), "qmark")
    assert sql.startswith("(at >= ? AND at <= ? AND ")
    assert parameters == [1, 3, 3, 3, 4]


def test_names_are_quoted_and_percent_signs_are_what_the_driver_takes_for_one():
    """Whatever a column is called, the text is a condition on it."""
    odd = RowRange(('50% "x"', "select"), (1, 1), (2, 2))
    sql, _ = text(odd, "format", alias="o", dialect="postgresql")
    assert sql.startswith('(o."50%% ""x""" >= %s AND ')
    sql, _ = text(odd, "qmark", dialect="mysql")
    assert sql.startswith('(`50% "x"` >= ? AND ')
    assert "`select` > ?" in sql


@pytest.mark.parametrize("recorded", [Recorded(), Recorded(dialect="nosuch")])
@pytest.mark.parametrize(("columns", "alias"), [(("order",), None), (("updatedAt",), None), (("id",), "Shop")])
def test_quotes_are_not_guessed(recorded, columns, alias):
    """What one database takes for a name is a text to another; so the dialect is asked for."""
    given = RowRange(columns, (), (9,), recorded=recorded)
    with pytest.raises(ConfigurationError, match=f"{alias or columns[0]!r} .*dialect='postgresql', 'mysql', 'sqlite'"):
        text(given, "pyformat", alias=alias)
    assert "`" in text(given, "pyformat", alias=alias, dialect="mysql")[0]


@pytest.mark.parametrize("style", ["pyformat", "format", "named", "qmark"])
def test_a_transactions_number_is_a_text_that_is_cast(style):
    """PostgreSQL compares xid8 with no number."""
    given = RowRange(("xid", "id"), (5, 1), (9, 2), recorded=Recorded(dialect="postgresql", kinds=("XID", "INTEGER")))
    sql, parameters = text(given, style)
    mark = {"pyformat": "%(batch_high_0)s", "named": ":batch_high_0", "format": "%s", "qmark": "?"}[style]
    assert f"xid <= CAST({mark} AS xid8)" in sql
    values = list(parameters.values()) if isinstance(parameters, dict) else parameters
    assert {"5", "9", 1, 2} == set(values)


def test_a_transactions_number_is_a_number_to_asyncpg():
    """Which sends it in the type that the server names."""
    given = RowRange(("xid",), (5,), (9,), recorded=Recorded(dialect="postgresql", kinds=("XID",)))
    assert text(given, "dollar") == ("(xid > CAST($1 AS xid8) AND xid <= CAST($2 AS xid8))", [5, 9])


def test_a_uuid_is_text_where_drivers_know_no_uuid():
    """psycopg2 and MySQL's drivers send the text, which the database compares as the column's type."""
    one = uuid.UUID(int=1)
    assert text(RowRange(("id",), (), (one,)), "format")[1] == [str(one)]
    assert text(RowRange(("id",), (), (one,)), "dollar")[1] == [one]


def test_the_clause_is_on_the_columns_of_a_table():
    """Or on columns without one."""
    orders = sa.table("orders", sa.column("id")).alias("o")
    given = RowRange(("id",), (5,), (9,))
    assert "o.id > :low_0 AND o.id <= :high_0" in str(sa.select(orders).where(given.clause(orders)))
    assert str(given.clause()) == "id > :low_0 AND id <= :high_0"


@pytest.mark.parametrize("names", [["updated_at", "id"], ["a,b", "c"], ["[x", "y"], [" a", "b"]])
def test_the_columns_are_those_of_the_watermark(names):
    """However odd their names are."""
    selection = check_sql_arguments(table="orders", cursor=names)
    watches = SqlRowSource(reader=SqlReader, conn_id="shop", selection=selection).watches
    assert range_between(watches, None, (1, 2)).columns == tuple(names)


@pytest.mark.parametrize(
    ("watches", "high", "said"),
    [
        (None, (1,), "watches nothing"),
        (Watches(source="s3://bucket/", cursor="time,key"), (1, "a"), "batches of rows, and .* watches s3://bucket/"),
        (Watches(source="sql://shop/orders", cursor="at,id"), (1,), r"its watermark's cursor is now \(at, id\)"),
    ],
)
def test_what_is_no_range_of_rows_is_refused(watches, high, said):
    """A batch of another kind of source, or of another cursor than the watermark has by now."""
    with pytest.raises(ConfigurationError, match=said):
        range_between(watches, None, high)


@pytest.mark.parametrize(("option", "said"), [("paramstyle", "give one of 'pyformat'"), ("dialect", "'postgresql'")])
def test_options_that_are_not_known_are_refused(option, said):
    """Naming those that are."""
    options = {"paramstyle": "qmark", "alias": None, "dialect": None, option: "no such"}
    with pytest.raises(ConfigurationError, match=said):
        TWO.condition(options.pop("paramstyle"), **options)
