"""What SQLite's catalogue says of keys: which indexes keep rows apart as the columns compare them.

A primary key that is not the row's own number may hold NULL there, and an index may have another collation than its
column, which no part of the catalogue names: a copy of the table's definition in memory tells it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import sqlalchemy as sa

__all__ = ["SqliteKeys", "sqlite_keys"]

_BINARY = "BINARY"
_COLLATE = re.compile(r"\bCOLLATE\s+[\"'`\[]?(\w+)", re.IGNORECASE)
_INDEXED = """
SELECT l.name, l.origin = 'pk', x.name, upper(x.coll) FROM pragma_index_list(:name, coalesce(:schema, 'main')) l
JOIN pragma_index_xinfo(l.name, coalesce(:schema, 'main')) x
WHERE x.key = 1 AND l."unique" = 1 AND l.partial = 0 ORDER BY l.origin <> 'pk', l.name, x.seqno
"""


@dataclass(frozen=True, slots=True)
class SqliteKeys:
    """The keys of a table that indexes hold.

    :param columns: the sets of columns in which no two rows agree, as the columns compare.
    :param of_primary: the columns of the primary key, where it is an index; such a key may hold NULL.
    """

    columns: Sequence[frozenset[str]]
    of_primary: frozenset[str]


def sqlite_keys(connection: sa.engine.Connection, schema: str | None, name: str) -> SqliteKeys:
    """Return the keys of a table."""
    parts = [tuple(row) for row in connection.execute(sa.text(_INDEXED), {"name": name, "schema": schema})]
    collations = _collations(connection, schema, name)
    columns, primary = [], frozenset[str]()
    for (_, is_primary), group in groupby(parts, key=itemgetter(0, 1)):
        named = [(part[2], part[3]) for part in group]
        key = frozenset(column for column, _ in named)
        primary = key if is_primary else primary
        # An expression has no column's name.
        if all(column is not None and collations.get(column, _BINARY) in (_BINARY, by) for column, by in named):
            columns.append(key)
    return SqliteKeys(columns, primary)


def _collations(connection: sa.engine.Connection, schema: str | None, name: str) -> dict[str, str]:
    """Return the collation of each column, where any has another than the common one."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    catalogue = sa.table("sqlite_master", *map(sa.column, ("sql", "type", "name")), schema=schema or "main").c
    named = sa.func.lower(catalogue.name) == sa.func.lower(name)
    definition = connection.execute(sa.select(catalogue.sql).where(catalogue.type == "table", named)).scalar() or ""
    if "collate" not in definition.lower():
        return {}
    with closing(sqlite3.connect(":memory:")) as copy:
        for collation in _COLLATE.findall(definition):
            if collation.upper() not in (_BINARY, "NOCASE", "RTRIM"):
                copy.create_collation(collation, lambda one, other: (one > other) - (one < other))
        try:
            copy.execute(definition)
        except sqlite3.Error:  # it needs something of the application's
            return {}
        columns = [str(row[0]) for row in copy.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        return {column: _collation(copy, quote(name), quote(column)) for column in columns}


def _collation(copy: sqlite3.Connection, table: str, column: str) -> str:
    copy.execute(f"CREATE INDEX probe ON {table} ({column})")
    ((collation,),) = copy.execute("SELECT upper(coll) FROM pragma_index_xinfo('probe') WHERE key = 1")
    copy.execute("DROP INDEX probe")
    return str(collation)
