"""What revisions are made of: steps that find their work half done and finish it.

MySQL commits every DDL statement by itself, and people restore dumps without the version table: a step therefore takes
an existing table as made when it is the one that the step would make, and refuses any other.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from alembic import op

from airflow_provider_incremental.core.errors import StoreNotMigratedError
from airflow_provider_incremental.stores.sql.tables import version_table

__all__ = ["add_column", "create_index", "create_table", "offline"]


def offline() -> bool:
    """Whether SQL is only written down, for a database that is not connected."""
    return bool(op.get_context().as_sql)


def create_table(name: str, *parts: Any, later: Collection[str] = (), **options: Any) -> None:
    """Make a table unless it is there with the same columns.

    :param later: columns that later revisions add: they may be there.
    :raises StoreNotMigratedError: when a table of this name has other columns.
    """
    wanted = {part.name for part in parts if isinstance(part, sa.Column)}
    found = _columns(name)
    if not found:
        op.create_table(name, *parts, **options)
    elif wanted != found - {*later}:
        missing, unknown = _listed(wanted - found), _listed(found - wanted - {*later})
        msg = (
            f"table {name} is there, but table {version_table} does not say at which revision, and its columns differ "
            f"from those of the first one (missing: {missing}; unknown: {unknown}). "
            f"Restore {version_table} together with it, or rename the table away, then run the upgrade again"
        )
        raise StoreNotMigratedError(msg)


def create_index(name: str, table: str, columns: list[str], *, unique: bool = False) -> None:
    """Make an index unless the table has one of this name."""
    if not offline() and name in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        return
    op.create_index(name, table, columns, unique=unique)


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column unless the table has one of this name."""
    if column.name not in _columns(table):
        op.add_column(table, column)


def _columns(table: str) -> set[str]:
    if offline():
        return set()
    inspector = sa.inspect(op.get_bind())
    return {column["name"] for column in inspector.get_columns(table)} if inspector.has_table(table) else set()


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
