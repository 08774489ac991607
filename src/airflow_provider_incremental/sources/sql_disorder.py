"""Types that a database sorts in one way, and compares with a given value in another: no cursor can keep a place there.

Told by the catalogue of a table, and by what the driver says of a result, of a query as well and before any row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["disorder_of", "type_told"]

_MYSQL = ("mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class _Disorder:
    why: str
    cast: str


_BY_NUMBER = "it is sorted by the number of a value and compared with a given one as text, so that rows would be lost"
_FEWER_DIGITS = "it comes with fewer digits than it is sorted by, so that rows would be lost"
_OF_MYSQL = {
    "ENUM": _Disorder(_BY_NUMBER, "CAST({} AS CHAR)"),
    "SET": _Disorder(_BY_NUMBER, "CAST({} AS CHAR)"),
    "BIT": _Disorder("it is sorted as a number, and compared with given bytes otherwise", "CAST({} AS UNSIGNED)"),
    "JSON": _Disorder("it is sorted as JSON, and compared with a given text otherwise", "CAST({} AS CHAR)"),
    "FLOAT": _Disorder(_FEWER_DIGITS, "CAST({} AS DOUBLE)"),
}
_DISORDERS: Mapping[str, Mapping[str, _Disorder]] = {
    "mysql": _OF_MYSQL,
    "mariadb": _OF_MYSQL,
    "duckdb": {
        "ENUM": _Disorder(_BY_NUMBER, "CAST({} AS VARCHAR)"),
        "TIMESTAMP_NS": _Disorder(_FEWER_DIGITS, "CAST({} AS TIMESTAMP)"),
    },
}
_MYSQL_CODES = {4: "FLOAT", 16: "BIT", 245: "JSON"}  # of the protocol, and so of every driver
_MYSQL_FLAGS = {0x100: "ENUM", 0x800: "SET"}
_FLAGS_AT = 7  # in a description that goes on behind what PEP 249 says


def disorder_of(dialect: str, type_name: str | None, column: str) -> str | None:
    """Return why a column of this type may not serve in a cursor, with the remedy; None where it may.

    :param type_name: the database's word for the type, or what :func:`type_told` returned.
    """
    found = _DISORDERS.get(dialect, {}).get(type_name or "")
    if found is None:
        return None
    return f"{found.why}; take another column, or watch a query that casts it (sql=...): {found.cast.format(column)}"


def type_told(dialect: str, cursor: Any) -> list[str | None]:
    """Return, for each column of a driver's result, the type that is sorted in a way of its own; None for any other."""
    description: Sequence[Any] = list(cursor.description)
    if dialect == "duckdb":
        return [str(each[1]).partition("(")[0] for each in description]
    if dialect not in _MYSQL:
        return [None] * len(description)
    flags = _flags(cursor, description)
    return [_mysql_type(each[1], flag) for each, flag in zip(description, flags, strict=True)]


def _mysql_type(code: Any, flags: int) -> str | None:
    if code in _MYSQL_CODES:
        return _MYSQL_CODES[code]
    return next((name for flag, name in _MYSQL_FLAGS.items() if flags & flag), None)


def _flags(cursor: Any, description: Sequence[Any]) -> list[int]:
    """Return the server's flags of each column: each driver has a place of its own for them."""
    told = getattr(cursor, "description_flags", None)  # mysqlclient
    if told is None:
        fields = getattr(getattr(cursor, "_result", None), "fields", None)  # PyMySQL
        told = fields and [field.flags for field in fields]
    if told is None:  # MySQL's own driver, and MariaDB's
        told = [each[_FLAGS_AT] if len(each) > _FLAGS_AT else 0 for each in description]
    return [int(flag or 0) for flag in told]
