"""What the SQL source needs of a database: to say what a selection looks like, and to run one statement at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy.sql.elements import TextClause

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import Column
from airflow_provider_incremental.sources.sql_keyset import Statement

__all__ = ["APPLICATION", "STALE", "Shape", "SqlReader"]

APPLICATION = "airflow-provider-incremental"
"""What a reader calls itself to the server: it adds no rows, so that no other reader waits for its transactions."""

STALE = 0.15
"""Seconds after which MySQL and MariaDB look at their open transactions anew; who asks sooner gets the last answer, and
keeps it alive for everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the database says of a selection.

    :param place: the database's address as messages show it, without a password.
    :param dialect: SQLAlchemy's name of it.
    :param columns: every column, in order.
    :param keys: the sets of columns in which no two rows agree; None for a query, of which nobody knows them.
    :param empty: whether there is no row yet to learn the cursor's types from.
    :param blind: why the open transactions of this database do not tell which rows of the selection are still to come;
        None where they do.
    """

    place: str
    dialect: str
    columns: Sequence[Column]
    keys: Sequence[frozenset[str]] | None
    empty: bool = False
    blind: str | None = None


class SqlReader(Protocol):
    """One database, for any number of sources at once.

    What cannot be read as configured raises :class:`SourceError`, with the database's own words and the remedy, and
    without a password. Anything else that is raised is temporary, and the next call begins anew.
    """

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now."""

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant; values as :mod:`core.values` takes them."""

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection.

        Calls of the same statements that wait for a connection may share an answer: it was begun after each of them.
        """

    async def aclose(self) -> None:
        """Give back what the reader holds."""
