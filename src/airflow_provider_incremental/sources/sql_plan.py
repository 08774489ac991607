"""How one selection is polled: decided once from what the database says of it, or refused with the remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_clock import Expression, instant_before
from airflow_provider_incremental.sources.sql_columns import (
    TIMESTAMPS,
    Column,
    Kind,
    UnfitValueError,
    fits,
    out_of_order,
    parse,
)
from airflow_provider_incremental.sources.sql_keyset import EdgeForm, Keyset
from airflow_provider_incremental.sources.sql_readers import Shape
from airflow_provider_incremental.sources.sql_refusals import looks_at_transactions, refusals
from airflow_provider_incremental.sources.sql_values import dictionaries

__all__ = ["Plan", "plan_of"]

_SHOWN = 80
_AHEAD = 60.0


@dataclass(frozen=True)
class Plan:
    """What a poll needs: the statements, and where in a row its cursor stands.

    :param delivered: the columns of a row, in the order of the statements.
    :param cursor: the cursor columns, most significant first.
    """

    selection: SqlSelection
    shape: Shape
    delivered: Sequence[Column]
    cursor: Sequence[Column]

    @property
    def where(self) -> str:
        """The selection and the database, as messages name them."""
        return f"{self.selection} at {self.shape.place}"

    @property
    def has_key(self) -> bool:
        """Whether the database says that no two rows agree in the cursor, in values that its driver keeps exactly."""
        return self.shape.dialect == "postgresql" and self.shape.keys is not None and not self.selection.unique

    @cached_property
    def settle(self) -> float:
        """Seconds that a poll stays behind: no less than the first cursor column's resolution."""
        return max(self.selection.settle, self.cursor[0].resolution)

    @cached_property
    def edge_form(self) -> EdgeForm | None:
        """What the upper edge is that the open transactions give; None where they are not looked at."""
        first = self.cursor[0]
        if not looks_at_transactions(self.selection, self.shape.dialect) or first.kind is Kind.XID:
            return None
        return "instant" if first.kind in TIMESTAMPS else "cursor"

    @cached_property
    def until(self) -> Expression | None:
        """The upper edge that a poll's own statement says; None where it is found before, or there is none."""
        if self.cursor[0].kind is Kind.XID and looks_at_transactions(self.selection, self.shape.dialect):
            return sa.literal_column("pg_snapshot_xmin(pg_current_snapshot())")
        return None if self.edge_form is not None else self.clock

    @cached_property
    def clock(self) -> Expression | None:
        """The database's clock minus ``settle``, as the first cursor column holds it; None where that is no time."""
        return instant_before(self.shape.dialect, self.cursor[0], self.settle, self.selection.timezone)

    @cached_property
    def well_ahead(self) -> Expression | None:
        """An instant to come that no row should be stamped with yet."""
        return instant_before(self.shape.dialect, self.cursor[0], -_AHEAD, self.selection.timezone)

    @cached_property
    def keyset(self) -> Keyset:
        """The statements."""
        return Keyset(
            dialect=self.shape.dialect,
            selection=self.selection,
            columns=self.delivered,
            cursor=self.cursor,
            until=self.until,
        )

    @cached_property
    def cursor_of(self) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """The function that returns the cursor of a row."""
        names = [column.name for column in self.delivered]
        places = [names.index(column.name) for column in self.cursor]
        if len(places) > 1:
            return itemgetter(*places)
        return lambda row: (row[places[0]],)

    @cached_property
    def items_of(self) -> Callable[[Sequence[Sequence[Any]]], list[dict[str, Any]]]:
        """The function that makes items of rows."""
        return dictionaries([column.name for column in self.delivered])

    def check_cursor(self, cursor: Sequence[Any]) -> None:
        """Refuse values that do not have the types of the cursor columns.

        :raises SourceError: naming the column, the value and the remedy.
        """
        if len(cursor) > len(self.cursor):
            msg = f"{self.where}: {_short(cursor)} has more values than the cursor {self._cursor_names} has columns"
            raise SourceError(msg)
        for column, value in zip(self.cursor, cursor, strict=False):
            if column.kind is None or not fits(column.kind, value):
                msg = (
                    f"{self.where}: {_mismatch(column, value, 'the watermark')}. The column's type has changed, or "
                    "somebody set the position by hand; it is not cast, since a cast may skip rows. Set it again in "
                    "the column's type: `airflow-incremental set`, or `airflow-incremental rewind`"
                )
                raise SourceError(msg)
            self._check_sendable(column, value)

    def check_found(self, cursor: Sequence[Any]) -> None:
        """Refuse the cursor of a row when it does not have the types that the columns had when they were looked at.

        :raises SourceError: naming the column and the value.
        """
        for column, value in zip(self.cursor, cursor, strict=True):
            why = out_of_order(column, value)
            if why is not None:
                msg = f"{self.where}: column {column.name} ({column.type_name}) has {value!r} in a row: {why}"
                raise SourceError(msg)
            if column.kind is None or not fits(column.kind, value):
                msg = (
                    f"{self.where}: {_mismatch(column, value, 'a row')}. The column's type has just changed, or it "
                    "has values of several types, which have no order; give all its values one type"
                )
                raise SourceError(msg)
            self._check_sendable(column, value)

    def _check_sendable(self, column: Column, value: Any) -> None:
        if value in column.unsendable:
            msg = (
                f"{self.where}: {value!r} in column {column.name} cannot be a position, since the driver takes it for "
                "infinity; leave such rows out, or watch a query that casts the column to text"
            )
            raise SourceError(msg)

    def parse_start(self, value: Any) -> tuple[Any, ...]:
        """Return the cursor that a user's start means: one value, or a list of them, of the first cursor columns.

        :raises SourceError: naming the column, the value and what is expected.
        """
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if len(values) > len(self.cursor):
            msg = f"start={_short(value)} has more values than the cursor {self._cursor_names} of {self.where} has"
            raise SourceError(msg)
        return tuple(self._parsed(column, each) for column, each in zip(self.cursor, values, strict=False))

    def _parsed(self, column: Column, value: Any) -> Any:
        try:
            parsed = parse(column, value)
        except UnfitValueError as error:
            msg = (
                f"start={_short(value)} is not a position in {self.where}: column {column.name} ({column.type_name}): "
                f"{error}"
            )
            raise SourceError(msg) from error
        self._check_sendable(column, parsed)
        return parsed

    @property
    def _cursor_names(self) -> str:
        return ",".join(column.name for column in self.cursor)


def plan_of(selection: SqlSelection, shape: Shape) -> Plan:
    """Return how a selection is polled.

    :raises SourceError: when a column is missing or may not serve in a cursor, or no key makes the order total.
    """
    for refusal in refusals(selection, shape):
        raise SourceError(refusal.message)
    known = {column.name: column for column in shape.columns}
    # A cursor column comes as itself, whatever the others come as.
    cursor = [replace(known[name], as_text=False) for name in selection.cursor]
    delivered = [known[name] for name in selection.columns or known]
    if selection.payload == "range":
        delivered = cursor
    return Plan(selection, shape, delivered, cursor)


def _mismatch(column: Column, value: Any, whose: str) -> str:
    expected = column.kind.value if column.kind else "of a type that cannot serve in a cursor"
    return (
        f"column {column.name} ({column.type_name}) is {expected}, and the value {_short(value)} of {whose} "
        f"({type(value).__name__}) is not"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
