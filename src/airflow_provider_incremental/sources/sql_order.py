"""How rows are compared by several columns, in each database's SQL."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

__all__ = ["Expression", "beyond"]

Expression = sa.sql.ColumnElement[Any]

# Here a comparison of rows is both standard and served by an index. Elsewhere it is one of the two or neither, as on
# MySQL and MariaDB, which read the whole table for it.
_ROW_VALUES = frozenset({"postgresql", "sqlite"})


def beyond(
    dialect: str, columns: Sequence[Expression], values: Sequence[Expression], *, upwards: bool, strict: bool
) -> Expression:
    """Return the condition that a row lies above, or below, these values, or at them as well.

    Elsewhere than where rows can be compared, column by column, with a condition on the first that an index serves.
    """
    past, from_there = (operator.gt, operator.ge) if upwards else (operator.lt, operator.le)
    whole: Any = past if strict else from_there
    if len(values) == 1:
        alone: Expression = whole(columns[0], values[0])
        return alone
    if dialect in _ROW_VALUES:
        rows: Expression = whole(sa.tuple_(*columns), sa.tuple_(*values))
        return rows
    ways: list[Expression] = []
    for last, (column, value) in enumerate(zip(columns, values, strict=True)):
        equal = [columns[each] == values[each] for each in range(last)]
        ends = last == len(columns) - 1 and not strict
        ways.append(sa.and_(*equal, (from_there if ends else past)(column, value)))
    return sa.and_(from_there(columns[0], values[0]), sa.or_(*ways))
