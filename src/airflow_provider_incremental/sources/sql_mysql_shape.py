"""What MySQL and MariaDB say of a table that SQLAlchemy does not describe.

A user to whom only some columns are granted may not ask how it was created; and there are types that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

__all__ = ["granted_columns", "is_denied", "know_every_type"]

_DENIED = 1142  # of a statement about a table, such as SHOW CREATE TABLE
_COLUMNS = """
SELECT column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
WHERE table_name = :name AND table_schema = coalesce(:schema, database()) ORDER BY ordinal_position
"""
_KEYS = """
SELECT index_name, column_name FROM information_schema.statistics
WHERE table_name = :name AND table_schema = coalesce(:schema, database()) AND non_unique = 0
ORDER BY index_name, seq_in_index
"""


class _Types(dict[str, Any]):
    """The types by their names in the catalogue; one that SQLAlchemy does not know is only known by its name."""

    def __missing__(self, name: str) -> Any:
        return _named(name)


def _named(name: str) -> Any:
    return type(name.upper(), (sa.types.NullType,), {})


def know_every_type(connection: sa.engine.Connection) -> None:
    """Let SQLAlchemy describe a table with a type that it does not know, such as INET6, without a warning."""
    dialect: Any = connection.dialect
    if not isinstance(dialect.ischema_names, _Types):
        dialect.ischema_names = _Types(dialect.ischema_names)


def is_denied(error: sa.exc.DBAPIError) -> bool:
    """Whether a table may not be described by this user, who may read some columns of it all the same."""
    return bool(error.orig is not None and error.orig.args[:1] == (_DENIED,))


def granted_columns(
    connection: sa.engine.Connection, schema: str | None, name: str
) -> tuple[Sequence[Mapping[str, Any]], Sequence[frozenset[str]]]:
    """Return the columns that the user may read, as SQLAlchemy describes them, and the keys of a table."""
    asked = {"name": name, "schema": schema}
    columns = [
        {"name": column, "type": _named(str(kind))(), "nullable": bool(nullable)}
        for column, kind, nullable in connection.execute(sa.text(_COLUMNS), asked)
    ]
    parts = [tuple(row) for row in connection.execute(sa.text(_KEYS), asked)]
    keys = [[column for _, column in group] for _, group in groupby(parts, key=itemgetter(0))]
    return columns, [frozenset(key) for key in keys if None not in key]  # an expression has no column's name
