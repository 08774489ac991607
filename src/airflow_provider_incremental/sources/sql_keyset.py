"""The statements of the SQL source: what lies above a cursor, bounded and in order. All of its SQL is made here.

SQLAlchemy quotes names as the dialect does, every value is bound, and the database compares in the columns' own types.
Nobody's text becomes SQL but that of a ``sql`` query, which is read as a part of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import sqlalchemy as sa

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import Column
from airflow_provider_incremental.sources.sql_order import Expression, beyond
from airflow_provider_incremental.sources.sql_texts import EDGE_NAMES, OWN_NAMES

__all__ = [
    "EdgeForm",
    "Keyset",
    "Statement",
    "columns_of",
    "edge_parameters",
    "low_parameters",
    "relation_of",
    "sample_of",
]

Statement = sa.sql.Select[Any]

EdgeForm = Literal["instant", "cursor"]
"""What an upper edge is that was found before: an instant that rows stay below, or the cursor of the last row."""


def low_parameters(cursor: Sequence[Any]) -> dict[str, Any]:
    """Return the bound parameters of a cursor for :meth:`Keyset.above`."""
    return {f"{OWN_NAMES}{number}": value for number, value in enumerate(cursor)}


def edge_parameters(values: Sequence[Any]) -> dict[str, Any]:
    """Return the bound parameters of an upper edge: of one instant, or of a cursor."""
    return {f"{EDGE_NAMES}{number}": value for number, value in enumerate(values)}


def columns_of(selection: SqlSelection, *, rows: bool) -> Statement:
    """Return the query of every column; without rows it only tells their names."""
    names = selection.columns
    what: list[Expression] = [sa.column(name) for name in names] if names else [sa.literal_column("*")]
    statement = sa.select(*what).select_from(relation_of(selection, selection.cursor))
    return statement if rows else statement.where(sa.literal_column("1") == sa.literal_column("0"))


def sample_of(selection: SqlSelection) -> Statement:
    """Return the query of one row's cursor, whichever, for the types of its values."""
    relation = relation_of(selection, selection.cursor)
    cursor = [relation.c[name] for name in selection.cursor]
    return sa.select(*cursor).where(*(column.is_not(None) for column in cursor)).limit(1)


class Keyset:
    """The statements that read one selection in the order of its cursor.

    :param columns: what to deliver; the cursor columns are among them.
    :param cursor: the cursor columns, most significant first.
    :param until: the upper edge that the first cursor column stays below; None for no edge.
    """

    def __init__(
        self,
        *,
        dialect: str,
        selection: SqlSelection,
        columns: Sequence[Column],
        cursor: Sequence[Column],
        until: Expression | None,
    ) -> None:
        self._dialect = dialect
        self._until = until
        self._relation = relation_of(selection, [column.name for column in columns])
        self._delivered = [self._selected(column) for column in columns]
        self._cursor = [self._relation.c[column.name] for column in cursor]
        condition = selection.condition_to_bind
        self._filter: list[Any] = [] if condition is None else [sa.text(condition)]
        self._nullable = [self._relation.c[column.name] for column in cursor if column.may_be_null]
        self.nulls = (
            self._limited(sa.select(sa.literal_column("1")).where(self._is_null()), 1) if self._nullable else None
        )
        """A query that finds a row without a place in the order; None where there cannot be any."""

    def above(self, given: int, limit: int, edge: EdgeForm | None = None) -> Statement:
        """Return the query of the rows above a cursor, in order.

        :param given: how many of the cursor columns have a value: all for a row's cursor, above which a row lies;
            fewer for a start, at which it may lie as well; 0 for the very start.
        :param edge: what the upper edge is that is given as parameters, below the one of the statements.
        """
        statement = sa.select(*self._delivered).where(*self._bounds(given, edge))
        return self._limited(statement.order_by(*self._cursor), limit)

    def latest(self, edge: EdgeForm | None = None) -> Statement:
        """Return the query of the cursor of the last row below the upper edge."""
        return self.top(0, edge)

    def top(self, given: int, edge: EdgeForm | None = None) -> Statement:
        """Return the query of the greatest cursor above another."""
        statement = sa.select(*self._cursor).where(*self._bounds(given, edge))
        return self._limited(statement.order_by(*(column.desc() for column in self._cursor)), 1)

    def some(self, given: int, *, waiting: bool = False) -> Statement:
        """Return the query that finds whether there is a row above a cursor.

        :param waiting: also one that is not below the upper edge yet.
        """
        bounds = [*self._in_order(), *self._after(given)] if waiting else self._bounds(given, None)
        # Without the order a planner that expects many such rows reads the table for one.
        first: Statement = sa.select(sa.literal_column("1").label("some")).select_from(self._relation)
        return self._limited(first.where(*bounds).order_by(*self._cursor), 1)

    def ahead(self, instant: Expression) -> Statement:
        """Return the query of the greatest value of the first cursor column, where that is later than an instant."""
        first = self._cursor[0]
        return self._limited(sa.select(first).where(*self._filter, first > instant).order_by(first.desc()), 1)

    def count(self, most: int) -> Statement:
        """Return the query of how many rows there are, up to a number."""
        rows: Statement = sa.select(sa.literal_column("1").label("row_is_there")).select_from(self._relation)
        return sa.select(sa.func.count()).select_from(self._limited(rows, most).subquery("some_rows"))

    def count_nulls(self) -> Statement:
        """Return the query of how many rows have no place in the order; see :meth:`nulls_of`."""
        counts: list[Expression] = [sa.func.count(), *(sa.func.count(column) for column in self._nullable)]
        return sa.select(*counts).select_from(self._relation).where(self._is_null())

    def nulls_of(self, counts: Sequence[int]) -> tuple[int, str]:
        """Return how many rows those are, and the names of the columns in which one has NULL."""
        count, *filled = counts
        pairs = zip(self._nullable, filled, strict=True)
        return count, ", ".join(str(column.name) for column, values in pairs if values < count)

    def _is_null(self) -> Expression:
        return sa.and_(*self._filter, sa.or_(*(column.is_(None) for column in self._nullable)))

    def _selected(self, column: Column) -> Expression:
        source: Expression = self._relation.c[column.name]
        return sa.cast(source, sa.Text).label(column.name) if column.as_text else source

    def _bounds(self, given: int, edge: EdgeForm | None) -> list[Expression]:
        bounds = self._in_order()
        if self._until is not None:
            bounds.append(self._cursor[0] < self._until)
        if edge == "instant":
            bounds.append(self._cursor[0] < sa.bindparam(f"{EDGE_NAMES}0"))
        elif edge == "cursor":
            bounds.append(self._up_to_edge())
        return [*bounds, *self._after(given)]

    def _in_order(self) -> list[Expression]:
        # A comparison of rows is decided by the first column that differs: a NULL behind it would slip through.
        return [*self._filter, *(column.is_not(None) for column in self._nullable)]

    def _after(self, given: int) -> list[Expression]:
        return [self._above_low(given)] if given else []

    def _above_low(self, given: int) -> Expression:
        columns = self._cursor[:given]
        values: list[Expression] = [sa.bindparam(f"{OWN_NAMES}{number}") for number in range(given)]
        return beyond(self._dialect, columns, values, upwards=True, strict=given == len(self._cursor))

    def _up_to_edge(self) -> Expression:
        values: list[Expression] = [sa.bindparam(f"{EDGE_NAMES}{number}") for number in range(len(self._cursor))]
        return beyond(self._dialect, self._cursor, values, upwards=False, strict=False)

    def _limited(self, statement: Statement, limit: int) -> Statement:
        # A planner that sees the number plans for it; where it is a parameter, a cached plan does not know it.
        number: Any = sa.literal_column(str(int(limit))) if self._dialect == "postgresql" else limit
        return statement.limit(number)


def relation_of(selection: SqlSelection, names: Sequence[str]) -> sa.sql.FromClause:
    """Return what a selection reads from, with these of its columns."""
    columns: list[sa.sql.expression.ColumnClause[Any]] = [sa.column(name) for name in names]
    if selection.sql is not None:
        # The line break ends a comment that the query may end with.
        return sa.text(selection.text_to_bind + "\n").columns(*columns).subquery("source_rows")
    schema, name = selection.schema_and_name
    return sa.table(name, *columns, schema=schema).alias("source_rows")
