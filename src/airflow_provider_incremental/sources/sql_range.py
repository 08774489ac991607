"""The rows of a batch as a condition of somebody's own query: between two cursors, every value bound.

Compared column by column, which every database understands, with a bound on the first column that an index serves.
"""

from __future__ import annotations

import contextlib
import json
import operator
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.engine.default import DefaultDialect

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.sql_columns import Kind
from airflow_provider_incremental.sources.sql_recorded import Recorded

__all__ = ["ParamStyle", "RangeCondition", "RowRange", "range_between"]

ParamStyle = Literal["pyformat", "format", "named", "qmark", "numeric", "dollar"]
"""How a driver writes a parameter: those of PEP 249, and ``dollar`` for asyncpg's ``$1``."""

_MARKS: dict[ParamStyle, Callable[[str, int], str]] = {
    "pyformat": lambda name, _: f"%({name})s",
    "format": lambda _, __: "%s",
    "named": lambda name, _: f":{name}",
    "qmark": lambda _, __: "?",
    "numeric": lambda _, place: f":{place}",
    "dollar": lambda _, place: f"${place}",
}
_BY_NAME = ("pyformat", "named")
_NOTHING_RECORDED = Recorded()
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")

Expression = sa.sql.ColumnElement[Any]


if TYPE_CHECKING:
    _OwnType = sa.types.UserDefinedType[Any]
else:  # that of SQLAlchemy 1.4 takes no parameter
    _OwnType = sa.types.UserDefinedType


class _Xid8(_OwnType):
    """PostgreSQL's type of transactions' numbers, which it compares with no other number."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return its name."""
        return "xid8"


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """A condition and its parameters: ``condition, parameters = batch.where()``.

    :param sql: what stands behind ``WHERE``, in parentheses.
    :param parameters: a dictionary for the styles that name parameters, else a list in the order of their marks.
    """

    sql: str
    parameters: dict[str, Any] | list[Any]

    def __iter__(self) -> Iterator[Any]:
        """Yield the condition, then the parameters."""
        yield from (self.sql, self.parameters)


@dataclass(frozen=True, slots=True)
class RowRange:
    """The rows above one cursor, up to another.

    :param columns: the cursor's, most significant first.
    :param low: a value for each of them, above which a row lies; fewer for a start, at which it lies as well.
    :param high: a value for each, which the last row has.
    :param recorded: what the source has recorded of them: the database's dialect, and the columns' kinds.
    """

    columns: tuple[str, ...]
    low: tuple[Any, ...]
    high: tuple[Any, ...]
    recorded: Recorded = _NOTHING_RECORDED

    def clause(self, table: Any = None) -> Expression:
        """Return the condition for SQLAlchemy, on the columns of a table, an alias or a subquery of its own."""
        columns = [sa.column(name) if table is None else table.c[name] for name in self.columns]
        bounds: list[Expression] = []
        if self.low:
            whole = len(self.low) == len(columns)
            low = self._bound("low", self.low)
            bounds += _bounds(columns, low, operator.gt, operator.gt if whole else operator.ge)
        bounds += _bounds(columns, self._bound("high", self.high), operator.lt, operator.le)
        # A comparison is decided by the first column that differs: a NULL behind it would slip through.
        bounds += [column.is_not(None) for column in columns[1:]]
        return sa.and_(*bounds)

    def condition(self, paramstyle: ParamStyle, *, alias: str | None, dialect: str | None) -> RangeCondition:
        """Return the condition as text; see :meth:`ClaimedBatch.where`."""
        if paramstyle not in get_args(ParamStyle):
            styles = ", ".join(map(repr, get_args(ParamStyle)))
            raise ConfigurationError(f"paramstyle={paramstyle!r} is not known; give one of {styles}")
        table = None if alias is None else sa.table(alias, *map(sa.column, self.columns))
        quoting = self._dialect(dialect, alias)
        values, order = self._sendable(paramstyle), list[str]()
        mark, percent = _MARKS[paramstyle], "%%" if paramstyle in ("pyformat", "format") else "%"

        def placed(found: re.Match[str]) -> str:
            name = found[1]
            if name is None:
                return percent
            if paramstyle in ("format", "qmark") or name not in order:
                order.append(name)
            return mark(f"batch_{name}", order.index(name) + 1)

        text = f"({_PLACEHOLDER.sub(placed, str(self.clause(table).compile(dialect=quoting)))})"
        if paramstyle in _BY_NAME:
            return RangeCondition(text, {f"batch_{name}": values[name] for name in order})
        return RangeCondition(text, [values[name] for name in order])

    def _bound(self, edge: str, values: Sequence[Any]) -> list[Expression]:
        return [self._parameter(f"{edge}_{place}", place, value) for place, value in enumerate(values)]

    def _parameter(self, name: str, place: int, value: Any) -> Expression:
        if not self._is_xid(place):
            return sa.bindparam(name, value)
        # A driver would bind a number as one of another type, for which there is no comparison and no cast either.
        return sa.cast(sa.bindparam(name, str(value), type_=sa.String()), _Xid8())

    def _is_xid(self, place: int) -> bool:
        return self.recorded.kinds[place : place + 1] == (Kind.XID.name,)

    def _sendable(self, paramstyle: ParamStyle) -> dict[str, Any]:
        """Return the values by name, as the drivers of a style take them."""
        edges = (("low", self.low), ("high", self.high))
        return {
            f"{edge}_{place}": _sendable(value, paramstyle, xid=self._is_xid(place))
            for edge, values in edges
            for place, value in enumerate(values)
        }

    def _dialect(self, given: str | None, alias: str | None) -> Any:
        """Return the standard's dialect, with the quotes of the one given or recorded, and none that are guessed."""
        if given is not None:
            return _quoting(given)
        if self.recorded.dialect is not None:
            with contextlib.suppress(ConfigurationError):  # a dialect that is installed at the trigger only
                return _quoting(self.recorded.dialect)
        dialect = DefaultDialect(paramstyle="pyformat")
        for name in filter(None, (*self.columns, alias)):
            if dialect.identifier_preparer.quote(name) != name:
                msg = (
                    f"the name {name!r} has to be quoted, each database does that in its own way, and the source has "
                    "not recorded yet which it is; say what the query runs on: "
                    "dialect='postgresql', 'mysql', 'sqlite', ..."
                )
                raise ConfigurationError(msg)
        return dialect


def range_between(
    watches: Watches | None, low: Cursor, high: Cursor, recorded: Recorded = _NOTHING_RECORDED
) -> RowRange:
    """Return the range of a batch.

    :param watches: what its watermark watches.
    :param recorded: what its source has recorded.
    :raises ConfigurationError: when that is no SQL source, or one of another cursor by now.
    """
    if watches is None or not watches.source.startswith("sql://"):
        what = "nothing" if watches is None else watches.source
        raise ConfigurationError(f"where() is for batches of rows, and this watermark watches {what}")
    columns = _names(watches.cursor)
    above, up_to = _tuple(low), _tuple(high)
    if len(up_to) != len(columns) or len(above) > len(columns):
        msg = (
            f"the batch ends at {up_to!r}, and its watermark's cursor is now ({', '.join(columns)}): the trigger has "
            "another cursor than when the batch was found; read this batch by its items, or rewind"
        )
        raise ConfigurationError(msg)
    return RowRange(columns, above, up_to, recorded)


def _names(cursor: str) -> tuple[str, ...]:
    return tuple(json.loads(cursor)) if cursor.startswith("[") else tuple(cursor.split(","))


def _tuple(cursor: Cursor) -> tuple[Any, ...]:
    if cursor is None:
        return ()
    return tuple(cursor) if isinstance(cursor, (tuple, list)) else (cursor,)


def _bounds(
    columns: Sequence[Expression],
    bound: Sequence[Expression],
    beyond: Callable[[Any, Any], Any],
    at_the_end: Callable[[Any, Any], Any],
) -> list[Expression]:
    """Return conditions that a row lies beyond these values: for one column simply, else column by column."""
    ways: list[Expression] = []
    for last in range(len(bound)):
        equal = [columns[each] == bound[each] for each in range(last)]
        ways.append(sa.and_(*equal, (at_the_end if last == len(bound) - 1 else beyond)(columns[last], bound[last])))
    if len(ways) == 1:
        return ways
    first = operator.ge if beyond is operator.gt else operator.le
    return [first(columns[0], bound[0]), sa.or_(*ways)]


def _sendable(value: Any, paramstyle: ParamStyle, *, xid: bool) -> Any:
    """Return a value as drivers of a style take it: psycopg2 and MySQL's know no UUID, but its text."""
    if isinstance(value, uuid.UUID):
        return str(value) if paramstyle in ("pyformat", "format") else value
    return str(value) if xid and paramstyle != "dollar" else value


def _quoting(name: str) -> Any:
    """Return the standard's dialect, with the quotes of another: a driver's casts of parameters are its own.

    :raises ConfigurationError: when the other is not known here.
    """
    try:
        preparer = registry.load(name).preparer
    except sa.exc.NoSuchModuleError as error:
        msg = f"dialect={name!r} is not one that SQLAlchemy knows here; give 'postgresql', 'mysql', 'sqlite', ..."
        raise ConfigurationError(msg) from error
    dialect: Any = DefaultDialect(paramstyle="pyformat")
    dialect.identifier_preparer = preparer(dialect)
    return dialect
