"""The types of cursor columns: which values fit one exactly, and how a start that a user wrote becomes one.

A cursor is compared by the database, in the column's own type. So a value that does not have that type is refused and
never cast: a driver's or a database's silent cast (a date for a timestamp, a naive time for an instant) moves it.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

__all__ = [
    "TIMESTAMPS",
    "Column",
    "Kind",
    "UnfitValueError",
    "fits",
    "kind_of",
    "looks_like_timestamp",
    "out_of_order",
    "parse",
]


class Kind(enum.Enum):
    """What a column may be to serve in a cursor; the value is what messages call it."""

    INTEGER = "a whole number"
    DECIMAL = "a decimal number"
    FLOAT = "a number"
    TEXT = "a text"
    UUID = "a UUID"
    BYTES = "bytes"
    XID = "a transaction's number (xid8)"
    DATE = "a date"
    TIMESTAMP = "a timestamp without zone"
    UTC_TIMESTAMP = "a timestamp in UTC, written without zone"
    INSTANT = "a timestamp with zone"
    TEXT_TIMESTAMP = "a timestamp in UTC, written as text"


TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.UTC_TIMESTAMP, Kind.INSTANT, Kind.TEXT_TIMESTAMP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What is known of one column.

    :param kind: None where it may not serve in a cursor, or where no row has told yet.
    :param type_name: the database's word for its type.
    :param nullable: whether a NULL may be in it; also where that is not known.
    :param as_text: whether the database is asked for it as text, since its type has no exact form here.
    :param resolution: seconds between two neighbouring values of a timestamp.
    :param sample: one of its values, where the kind was learned from one.
    :param disorder: why, though its values have a kind, they may not serve in a cursor; the remedy is in it.
    :param null_in_key: whether a NULL may be in it, although it is a part of a key: SQLite's primary keys allow it.
    :param ahead: how many numbers a session takes from the column's sequence at once, and keeps for later.
    :param unsendable: values that the driver takes for others, so that they cannot be compared with.
    """

    name: str
    kind: Kind | None = None
    type_name: str = "of a type unknown so far"
    nullable: bool = True
    as_text: bool = False
    resolution: float = 0.0
    sample: Any = field(default=None, compare=False)
    unsendable: frozenset[Any] = frozenset()
    disorder: str | None = None
    ahead: int = 1
    null_in_key: bool = False

    @property
    def may_be_null(self) -> bool:
        """Whether a row may have no value there."""
        return self.nullable or self.null_in_key


class UnfitValueError(ValueError):
    """A value does not have, and cannot be read as, the type of its column."""


_PYTHON_TYPES: dict[Kind, tuple[type, ...]] = {
    Kind.INTEGER: (int,),
    Kind.DECIMAL: (int, Decimal),
    Kind.FLOAT: (int, float),
    Kind.TEXT: (str,),
    Kind.TEXT_TIMESTAMP: (str,),
    Kind.UUID: (uuid.UUID,),
    Kind.BYTES: (bytes,),
    Kind.XID: (int,),
    Kind.DATE: (dt.date,),
    Kind.TIMESTAMP: (dt.datetime,),
    Kind.UTC_TIMESTAMP: (dt.datetime,),
    Kind.INSTANT: (dt.datetime,),
}
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.UTC_TIMESTAMP)
_NO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TEXT_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?")


def fits(kind: Kind, value: Any) -> bool:
    """Whether the value has the column's type, so that nobody has to cast it. NaN has no place in an order."""
    if isinstance(value, bool) or (isinstance(value, (float, Decimal)) and math.isnan(value)):
        return False
    if kind is Kind.DATE and isinstance(value, dt.datetime):
        return False
    if isinstance(value, dt.datetime) and (value.tzinfo is not None) != (kind is Kind.INSTANT):
        return False
    return isinstance(value, _PYTHON_TYPES[kind])


def kind_of(value: Any) -> Kind | None:
    """Return the kind of the column that a driver returned this value from; None when it may not serve in a cursor."""
    if isinstance(value, dt.datetime):
        return Kind.TIMESTAMP if value.tzinfo is None else Kind.INSTANT
    if isinstance(value, (float, Decimal)):  # also of NaN, which is refused where it is found
        return Kind.FLOAT if isinstance(value, float) else Kind.DECIMAL
    for kind in (Kind.DATE, Kind.INTEGER, Kind.TEXT, Kind.UUID, Kind.BYTES):
        if fits(kind, value):
            return kind
    return None


def out_of_order(column: Column, value: Any) -> str | None:
    """Return why a value that the column may hold is no place in an order, with the remedy; None where it is one.

    >>> out_of_order(Column(name="n", kind=Kind.FLOAT), 1.5) is None
    True
    """
    if isinstance(value, (float, Decimal)) and math.isnan(value):
        return f"it is not a number; give such rows one, or leave them out: where=\"{column.name} <> 'NaN'\""
    if column.kind in _TIMES and (value is None or (isinstance(value, str) and _NO_DATE.match(value))):
        what = "no calendar has that date" if value else "the driver has no date for it, as for a zero date"
        return f"{what}; give such rows a date, or leave them out: where=\"{column.name} > '1000-01-01'\""
    return None


def looks_like_timestamp(text: Any) -> bool:
    """Whether a text is a timestamp in UTC, or in no zone, whose order as text is its order in time."""
    return isinstance(text, str) and _TEXT_TIMESTAMP.fullmatch(text) is not None


def parse(column: Column, value: Any) -> Any:
    """Return the value of the column's type that a user's number or text means; one that fits stays as it is.

    :raises UnfitValueError: saying what is expected instead.

    >>> parse(Column(name="id", kind=Kind.INTEGER), "41")
    41
    """
    kind = column.kind
    if kind is None:
        msg = "its type shows with the first row, and there is none yet"
        raise UnfitValueError(msg)
    if kind is Kind.TEXT_TIMESTAMP:
        return _text_timestamp(column, value)
    if fits(kind, value):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int, float, dt.date)):
        msg = f"expected {kind.value}"
        raise UnfitValueError(msg)
    try:
        return _PARSERS[kind](value)
    except UnfitValueError:
        raise
    except (ValueError, TypeError, InvalidOperation) as error:
        msg = f"expected {kind.value}, as in {_EXAMPLES[kind]}"
        raise UnfitValueError(msg) from error


def _integer(value: Any) -> int:
    return int(value if isinstance(value, str) else str(value))


def _float(value: Any) -> int | float:
    try:
        return _integer(value)
    except ValueError:
        return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _naive(value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is not None:
        msg = "the column has no zone: give the time without one, as it stands in the column"
        raise UnfitValueError(msg)
    return moment


def _utc(value: Any) -> dt.datetime:
    moment = _moment(value)
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


def _instant(value: Any) -> dt.datetime:
    moment = _moment(value)
    if moment.tzinfo is None:
        msg = "the column has a zone: say which one is meant, as in 2026-01-31T12:00:00+00:00"
        raise UnfitValueError(msg)
    return moment


def _moment(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    return dt.datetime.fromisoformat(_text(value))


def _text_timestamp(column: Column, value: Any) -> str:
    text = value.isoformat() if isinstance(value, dt.date) else value
    if not isinstance(text, str):
        msg = "expected a text, written as the column's values are"
        raise UnfitValueError(msg)
    separator = str(column.sample)[10:11] or " "
    return re.sub(r"^(\d{4}-\d\d-\d\d)[ T]", rf"\g<1>{separator}", text)


_PARSERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.INTEGER: _integer,
    Kind.DECIMAL: lambda value: Decimal(str(value)),
    Kind.FLOAT: _float,
    Kind.TEXT: _text,
    Kind.UUID: lambda value: uuid.UUID(_text(value)),
    Kind.BYTES: lambda value: bytes.fromhex(_text(value).removeprefix("\\x")),
    Kind.XID: _integer,
    Kind.DATE: lambda value: dt.date.fromisoformat(_text(value)),
    Kind.TIMESTAMP: _naive,
    Kind.UTC_TIMESTAMP: _utc,
    Kind.INSTANT: _instant,
}
_EXAMPLES: dict[Kind, str] = {
    Kind.INTEGER: "41",
    Kind.DECIMAL: "'41.50'",
    Kind.FLOAT: "41.5",
    Kind.TEXT: "'ab'",
    Kind.UUID: "'6f9619ff-8b86-d011-b42d-00c04fc964ff'",
    Kind.BYTES: "'\\\\x00ff'",
    Kind.XID: "41",
    Kind.DATE: "'2026-01-31'",
    Kind.TIMESTAMP: "'2026-01-31T12:00:00'",
    Kind.UTC_TIMESTAMP: "'2026-01-31T12:00:00'",
    Kind.INSTANT: "'2026-01-31T12:00:00+00:00'",
}
