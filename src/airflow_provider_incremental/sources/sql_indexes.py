"""Whether an index serves a poll: what the catalogue lists, how far it follows the cursor, and the DDL of a new one.

The rule is every B-tree's: an index gives rows in the order of the cursor when its leading columns are the cursor's, in
their order and all in one direction. InnoDB appends the primary key to each secondary index, SQLite the rowid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import registry

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_readers import SqlReader

__all__ = ["Index", "index_ddl", "indexes_of", "served"]

_LONGEST_NAME = 30  # Oracle's, before 12.2: the shortest of all


@dataclass(frozen=True, slots=True)
class Index:
    """One index that could give rows in an order.

    :param columns: their names, most significant first; None for an expression, or a column that is not ordered as the
        column itself is (a prefix, another collation).
    :param descending: which of them run downwards.
    """

    name: str
    columns: tuple[str | None, ...]
    descending: tuple[bool, ...]


def served(index: Index, cursor: Sequence[str]) -> int:
    """Return how many of the cursor's columns the index gives in their order.

    >>> served(Index("orders_at", ("updated_at", "id"), (False, False)), ["updated_at", "id"])
    2
    """
    pairs = zip(cursor, index.columns, index.descending, strict=False)
    alike = takewhile(lambda pair: pair[0] == pair[1] and pair[2] == index.descending[0], pairs)
    return sum(1 for _ in alike)


async def indexes_of(reader: SqlReader, dialect: str, selection: SqlSelection) -> list[Index] | None:
    """Return the indexes of a table that could give rows in an order; None for what has none, or unknown.

    :raises SourceError: when the catalogue cannot be read.
    """
    query = _CATALOGUES.get(dialect)
    if query is None or selection.table is None:
        return None
    schema, name = selection.schema_and_name
    rows = await reader.fetch(_statement(query), {"table_schema": schema, "table_name": name})
    if not rows:
        return None
    found = []
    for key, group in groupby((row for row in rows if row[0] is not None), key=itemgetter(0)):
        parts = list(group)
        found.append(Index(str(key), tuple(row[1] for row in parts), tuple(bool(row[2]) for row in parts)))
    return list(_with_appended(found))


def index_ddl(dialect: str, selection: SqlSelection) -> str | None:
    """Return the statement that makes the index that serves a poll; None for a query, or where there are no indexes.

    On PostgreSQL it does not lock the table; on a partitioned table that needs another way, as PostgreSQL then says.
    """
    if selection.table is None or dialect in _WITHOUT_INDEXES:
        return None
    schema, name = selection.schema_and_name
    if dialect == "snowflake":
        quote: Callable[[str], str] = _dialect(dialect).identifier_preparer.quote
        whole = ".".join(quote(part) for part in selection.table.split("."))
        return f"ALTER TABLE {whole} CLUSTER BY ({', '.join(map(quote, selection.cursor))})"
    columns = [sa.Column(each, sa.Integer) for each in selection.cursor]
    table = sa.Table(name, sa.MetaData(), *columns, schema=schema)
    short = "_".join([name, *selection.cursor])[: _LONGEST_NAME - 4].rstrip("_")
    index = sa.Index(f"{short}_idx", *columns, postgresql_concurrently=True, _table=table)
    return str(sa.schema.CreateIndex(index).compile(dialect=_dialect(dialect))).strip()


def _dialect(name: str) -> Any:
    """Return a dialect that writes for people: without a driver's parameters, no percent sign has to be doubled."""
    try:
        return registry.load("mysql" if name == "mariadb" else name)(paramstyle="named")
    except (sa.exc.NoSuchModuleError, ImportError, AttributeError):
        return sa.engine.default.DefaultDialect(paramstyle="named")


def _with_appended(indexes: Sequence[Index]) -> Iterable[Index]:
    """Yield the indexes as they are read: with what the engine appends to each of them."""
    appended = next((index for index in indexes if index.name == _CLUSTERED), None)
    for index in indexes:
        if appended is None or index is appended:
            yield index
            continue
        more = [name for name in appended.columns if name not in index.columns]
        down = [False] * len(more)
        yield replace(index, columns=(*index.columns, *more), descending=(*index.descending, *down))


def _statement(query: str) -> Statement:
    """Return a query of the catalogue as a statement that a reader runs."""
    names = ("name", "part", "descending", "place")
    columns: list[sa.sql.expression.ColumnClause[Any]] = [sa.column(name) for name in names]
    listed = sa.text(query).columns(*columns).subquery("listed")
    return sa.select(*listed.c).order_by(listed.c.name, listed.c.place)


_CLUSTERED = "PRIMARY"
"""What MySQL calls the index that InnoDB keeps the rows in; here also SQLite's rowid, where a column is its alias."""

_WITHOUT_INDEXES = frozenset({"trino", "presto", "bigquery", "redshift", "hive", "databricks", "clickhouse", "duckdb"})

# Each has a row without a name for a table without an index, and none for what can have no index, as a view.
_POSTGRESQL = """
SELECT CAST(c.relname AS text) AS name,
    CASE WHEN o.opcdefault AND i.indcollation[k] IN (0, a.attcollation) THEN CAST(a.attname AS text) END AS part,
    i.indoption[k] & 1 = 1 AS descending, k AS place
FROM pg_catalog.pg_class t
LEFT JOIN (
    pg_catalog.pg_index i
    JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_am m ON m.oid = c.relam AND m.amname = 'btree'
    CROSS JOIN LATERAL generate_series(0, i.indnkeyatts - 1) AS k
    JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[k]
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[k]
) ON i.indrelid = t.oid AND i.indisvalid AND i.indpred IS NULL
WHERE t.relkind IN ('r', 'p', 'm') AND t.relname = CAST(:table_name AS text) AND CASE
    WHEN CAST(:table_schema AS text) IS NULL THEN pg_catalog.pg_table_is_visible(t.oid)
    ELSE t.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = CAST(:table_schema AS text)) END
"""
_MYSQL = """
SELECT CASE WHEN s.index_name = 'PRIMARY' AND t.engine <> 'InnoDB' THEN 'primary' ELSE s.index_name END AS name,
    CASE WHEN s.sub_part IS NULL THEN s.column_name END AS part,
    s.collation = 'D' AS descending, s.seq_in_index AS place
FROM information_schema.tables t
LEFT JOIN information_schema.statistics s
    ON s.table_schema = t.table_schema AND s.table_name = t.table_name AND s.index_type = 'BTREE'
WHERE t.table_type = 'BASE TABLE' AND t.table_name = :table_name
    AND t.table_schema = coalesce(:table_schema, database())
"""
_SQLITE = """
SELECT l.name AS name, CASE WHEN x.cid >= 0 THEN x.name END AS part, x."desc" AS descending, x.seqno AS place
FROM pragma_index_list(:table_name, coalesce(:table_schema, 'main')) l
JOIN pragma_index_xinfo(l.name, coalesce(:table_schema, 'main')) x WHERE x.key = 1 AND l.partial = 0
UNION ALL
SELECT CASE WHEN count(*) = 1 AND upper(min(c.type)) = 'INTEGER' THEN 'PRIMARY' END, min(c.name), 0, 0
FROM pragma_table_info(:table_name, coalesce(:table_schema, 'main')) c
WHERE c.pk > 0 AND EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :table_name)
"""
_CATALOGUES = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "mariadb": _MYSQL, "sqlite": _SQLITE}
