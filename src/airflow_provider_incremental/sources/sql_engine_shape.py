"""What a table or a query looks like, through SQLAlchemy: names and keys from the catalogue, cursor types from a row.

A driver's values decide how a cursor is compared, whatever the catalogue calls the column's type. So the types are
learned from the cursor of one row, whichever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import TIMESTAMPS, Column, Kind, kind_of, looks_like_timestamp
from airflow_provider_incremental.sources.sql_disorder import disorder_of, type_told
from airflow_provider_incremental.sources.sql_keyset import columns_of, sample_of
from airflow_provider_incremental.sources.sql_mysql_shape import granted_columns, is_denied, know_every_type
from airflow_provider_incremental.sources.sql_readers import Shape
from airflow_provider_incremental.sources.sql_sqlite import sqlite_keys

__all__ = ["describe"]

_MYSQL = ("mysql", "mariadb")
_MYSQL_TIMES = {7: Kind.UTC_TIMESTAMP, 10: Kind.DATE, 12: Kind.TIMESTAMP}
"""By the code of the type in the protocol, and so in every driver's description: for a date that Python does not know,
drivers return a text or None."""
_FORKS = ("TiDB", "Vitess", "SingleStore", "MemSQL", "StarRocks", "Doris", "OceanBase")
_MINUTE = 60.0
_COARSEST = 1.0  # seconds: a driver does not tell how finely a timestamp is kept


def describe(connection: sa.engine.Connection, selection: SqlSelection, place: str) -> Shape:
    """Return what the selection looks like now.

    :param place: the database's address as messages show it.
    :raises SourceError: when there is no such table.
    """
    keys: list[frozenset[str]] | None = None
    if selection.table is not None:
        columns, keys = _table(connection, selection, place)
    else:
        result = connection.execute(columns_of(selection, rows=False), selection.values_to_bind)
        columns = [Column(name=name) for name in map(str, result.keys())]
        result.close()
    sampled, empty = _sample(connection, selection, columns)
    return Shape(
        place=place,
        dialect=connection.dialect.name,
        columns=[sampled.get(column.name, column) for column in columns],
        keys=keys,
        empty=empty,
        blind=_blind(connection) if connection.dialect.name in _MYSQL else None,
    )


def _blind(connection: sa.engine.Connection) -> str | None:
    """Return why a server that speaks MySQL's language does not show the transactions of all who write."""
    version = str(connection.execute(sa.text("SELECT VERSION()")).scalar())
    for fork in _FORKS:
        if fork.lower() in version.lower():
            return f"{fork} does not show every open transaction"
    named = sa.text("SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'innodb_read_only') AND Value = 'ON'")
    on = {str(row[0]) for row in connection.execute(named)}
    if "wsrep_on" in on:
        return "the server is one of a Galera cluster, and does not know the transactions of the others"
    if "innodb_read_only" in on:
        return "the server is a read-only replica, and does not know the transactions of its source"
    return None


def _table(
    connection: sa.engine.Connection, selection: SqlSelection, place: str
) -> tuple[list[Column], list[frozenset[str]]]:
    schema, name = selection.schema_and_name
    inspector = sa.inspect(connection)
    if not inspector.has_table(name, schema=schema):
        msg = (
            f"{place} has no {selection}; create it, correct the name ('schema.name' says which schema), or GRANT "
            "SELECT on it"
        )
        raise SourceError(msg)
    dialect = connection.dialect.name
    if dialect == "duckdb":  # read as PostgreSQL's, which fails or leaves indexes out, depending on the release
        msg = (
            f"{selection} at {place} cannot be looked up in DuckDB's catalogue; watch it as a query, with "
            f"sql='FROM {selection.table}' and unique=True"
        )
        raise SourceError(msg)
    if dialect in _MYSQL:
        know_every_type(connection)
    # In this order: on SQLite, SQLAlchemy 1.4 sorts the columns for itself when it is asked for the key.
    try:
        described = list(inspector.get_columns(name, schema=schema))
    except sa.exc.DBAPIError as error:
        if dialect not in _MYSQL or not is_denied(error):
            raise
        granted, keys = granted_columns(connection, schema, name)
        return [_declared(dialect, column, frozenset()) for column in granted], list(keys)
    key = frozenset(inspector.get_pk_constraint(name, schema=schema).get("constrained_columns") or ())
    columns = [_declared(dialect, column, key) for column in described]
    if dialect != "sqlite":
        return columns, [each for each in (key, *_unique(inspector, name, schema)) if each]
    indexed = sqlite_keys(connection, schema, name)
    empty = {str(column["name"]) for column in described if column["nullable"]} & indexed.of_primary
    columns = [replace(column, null_in_key=column.name in empty) for column in columns]
    # The row's own number needs no index.
    return columns, [*([key] if key and not indexed.of_primary else []), *indexed.columns]


def _declared(dialect: str, column: Mapping[str, Any], key: frozenset[str]) -> Column:
    name, type_name = str(column["name"]), type(column["type"]).__name__
    return Column(
        name=name,
        type_name=f"of type {type_name}",
        nullable=bool(column.get("nullable", True)) and name not in key,
        disorder=disorder_of(dialect, type_name, name),
    )


def _unique(inspector: Any, name: str, schema: str | None) -> Iterator[frozenset[str]]:
    """Yield the columns of every other key; some dialects do not know of such things."""
    with contextlib.suppress(NotImplementedError):
        for constraint in inspector.get_unique_constraints(name, schema=schema):
            yield frozenset(constraint["column_names"])
    with contextlib.suppress(NotImplementedError):
        for index in inspector.get_indexes(name, schema=schema):
            partial = any(option.endswith("_where") for option in index.get("dialect_options", {}))
            # An expression has no column's name.
            if index["unique"] and not partial and None not in index["column_names"]:
                yield frozenset(index["column_names"])


def _sample(
    connection: sa.engine.Connection, selection: SqlSelection, columns: Sequence[Column]
) -> tuple[dict[str, Column], bool]:
    """Return the cursor columns with what one row tells of them, by name, and whether there is no row."""
    known = {column.name: column for column in columns}
    if not all(name in known for name in selection.cursor):
        return {}, True
    result = connection.execute(sample_of(selection), selection.values_to_bind)
    dialect = connection.dialect.name
    codes, told = [each[1] for each in result.cursor.description], type_told(dialect, result.cursor)
    row = result.fetchone()
    result.close()
    sampled: dict[str, Column] = {}
    for place, name in enumerate(selection.cursor):
        column = _as_told(dialect, known[name], told[place])
        if row is not None:
            column = _as_sampled(dialect, column, row[place], codes[place], named=selection.table is not None)
        sampled[name] = column
    return sampled, row is None


def _as_told(dialect: str, column: Column, type_told: str | None) -> Column:
    disorder = disorder_of(dialect, type_told, column.name)
    if disorder is None:
        return column
    return replace(column, type_name=f"of type {type_told}", disorder=disorder)


def _as_sampled(dialect: str, column: Column, value: Any, code: Any, *, named: bool) -> Column:
    """Return a column with what a value of it tells.

    :param named: whether the catalogue has a name of its type.
    """
    kind = _kind(dialect, value, code)
    return replace(
        column,
        kind=kind,
        type_name=column.type_name if named or column.disorder else f"of type {type(value).__name__}",
        resolution=_resolution(kind, value),
        sample=value,
    )


def _resolution(kind: Kind | None, value: Any) -> float:
    """Return the seconds between two values: of texts, what one of them shows."""
    if kind not in TIMESTAMPS:
        return 0.0
    return _COARSEST if kind is not Kind.TEXT_TIMESTAMP or value.count(":") > 1 else _MINUTE


def _kind(dialect: str, value: Any, type_code: Any) -> Kind | None:
    kind = kind_of(value)
    if dialect in _MYSQL and (value is None or kind in (Kind.TEXT, Kind.TIMESTAMP)):
        return _MYSQL_TIMES.get(type_code, kind)
    if dialect == "sqlite":
        if kind is Kind.INTEGER:  # one column may hold both
            return Kind.FLOAT
        if looks_like_timestamp(value):
            return Kind.TEXT_TIMESTAMP
    return kind
