"""The check of the SQL arguments: what is wrong with them is said when the DAG is parsed, before anything is read."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, get_args
from zoneinfo import ZoneInfo

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["EDGE_NAMES", "OWN_NAMES", "Payload", "SqlSelection", "Visibility", "check_sql_arguments"]

Payload = Literal["rows", "range"]
"""``rows``: every item is a row. ``range``: a batch has bounds and a count only, and the consumer reads for itself."""

Visibility = Literal["committed", "none"]
"""``committed``: a poll stays below whatever a transaction that is open can still add. ``none``: it does not look."""

OWN_NAMES = "cursor_low_"
"""How the names of the bound parameters begin that the source adds to a query's own: a cursor, and an upper edge."""

EDGE_NAMES = "cursor_edge_"

_SHOWN = 80

# Text literals, quoted names and comments: what stands in them is not the query's structure.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlSelection:
    """Which rows are watched, in which order, and what of them is delivered: arguments that were checked."""

    cursor: tuple[str, ...]
    table: str | None = None
    sql: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    payload: Payload = "rows"
    settle: float = 1.0
    timezone: str | None = None
    visibility: Visibility | None = None
    max_hold: float | None = None

    @property
    def schema_and_name(self) -> tuple[str | None, str]:
        """The two parts of ``table``; everything before the last dot is the schema's name."""
        schema, _, name = (self.table or "").rpartition(".")
        return schema or None, name

    @property
    def text_to_bind(self) -> str:
        """The query as a text for SQLAlchemy, in which every colon that begins no parameter is escaped."""
        sql, done = self.sql or "", 0
        parts: list[str] = []
        for quoted in _QUOTED.finditer(sql):
            parts += [self._escaped(sql[done : quoted.start()]), quoted[0].replace(":", r"\:")]
            done = quoted.end()
        return "".join([*parts, self._escaped(sql[done:])])

    def _escaped(self, text: str) -> str:
        names = "|".join(map(re.escape, self.parameters)) or "(?!)"
        return re.sub(rf"((?<![:\w]):(?=(?:{names})\b))|:", lambda colon: colon[1] or r"\:", text)

    @property
    def name(self) -> str:
        """The table, or a short hash of the query and its parameters; line breaks and indentation do not count."""
        if self.table is not None:
            return self.table
        text = json.dumps([" ".join((self.sql or "").split()), sorted(self.parameters.items())], default=repr)
        return f"query:{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def __str__(self) -> str:
        """Return what to call it in a message."""
        if self.table is not None:
            return f"table {self.table}"
        text = " ".join((self.sql or "").split())
        return f"the query {text if len(text) <= _SHOWN else text[:_SHOWN] + '...'!r}"


def check_sql_arguments(
    *,
    cursor: str | Sequence[str],
    table: str | None = None,
    sql: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    columns: Sequence[str] | None = None,
    payload: str = "rows",
    max_rows: int = 1000,
    settle: float = 1.0,
    timezone: str | None = None,
    visibility: str | None = None,
    max_hold: float | None = None,
) -> SqlSelection:
    """Refuse arguments with which no table or query can be watched, and return the others in one form.

    :param cursor: the columns that give the rows their order, most significant first. No two rows may agree in all of
        them; for a ``table`` the database is asked for the key that guarantees it, for ``sql`` it is your promise.
    :param table: a table's name, or ``schema.table``. Names are quoted where they need it: lower-case ones are the
        database's ordinary names, any other is taken as it is written.
    :param sql: a query without a condition on the cursor, an ORDER BY or a LIMIT of its own: it is read as
        ``SELECT ... FROM (sql)``. This text is trusted, and sent as it is.
    :param parameters: values of ``:name`` in ``sql``, bound by the driver. A colon before any other word, or within a
        text literal, a quoted name or a comment, is only a colon.
    :param columns: what to deliver of each row, with the cursor columns among it; by default every column.
    :param payload: ``rows``, or ``range`` for bounds and a count only.
    :param max_rows: at most so many rows a batch.
    :param settle: seconds behind the database's clock where a poll ends, when the first cursor column is a timestamp:
        rows that share a stamp become visible one after the other. It is never less than the column's resolution.
    :param timezone: the zone whose wall clock a first cursor column without zone holds (``Asia/Kolkata``); by default
        the database's own. PostgreSQL, MySQL and MariaDB only.
    :param visibility: ``committed`` to stay below whatever a transaction that is open can still add, so that a row that
        commits late is not missed; ``none`` to look at no transactions. By default ``committed`` on PostgreSQL, MySQL
        and MariaDB, and ``none`` on others.
    :param max_hold: seconds after which an open transaction is not waited for any more; by default it always is.
    :raises ConfigurationError: naming the parameter, its value and what to write instead.

    >>> check_sql_arguments(table="shop.orders", cursor=["updated_at", "id"]).cursor
    ('updated_at', 'id')
    """
    names = _names("cursor", [cursor] if isinstance(cursor, str) else cursor)
    selected = None if columns is None else _names("columns", columns)
    missing = [name for name in names if selected is not None and name not in selected]
    if missing:
        _refuse("columns", columns, f"the cursor column {missing[0]!r} is not among them; add it")
    _check_table_or_sql(table, sql, parameters or {})
    if payload not in get_args(Payload):
        _refuse("payload", payload, f"give one of {', '.join(map(repr, get_args(Payload)))}")
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        _refuse("max_rows", max_rows, "give a whole number of rows a batch, 1 or more")
    if not _is_seconds(settle):
        _refuse("settle", settle, "give a number of seconds, 0 or more")
    if timezone is not None:
        _check_zone(timezone)
    _check_visibility(visibility, max_hold)
    return SqlSelection(
        cursor=names,
        table=table,
        sql=sql,
        parameters=dict(parameters or {}),
        columns=selected,
        payload="range" if payload == "range" else "rows",
        settle=float(settle),
        timezone=timezone,
        visibility=None if visibility is None else "none" if visibility == "none" else "committed",
        max_hold=None if max_hold is None else float(max_hold),
    )


def _is_seconds(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _check_visibility(visibility: str | None, max_hold: float | None) -> None:
    if visibility is not None and visibility not in get_args(Visibility):
        _refuse("visibility", visibility, f"give one of {', '.join(map(repr, get_args(Visibility)))}")
    if max_hold is None:
        return
    if not _is_seconds(max_hold):
        _refuse("max_hold", max_hold, "give a number of seconds, 0 or more, or leave it out to wait for ever")
    if visibility == "none":
        _refuse("max_hold", max_hold, "with visibility='none' no transaction is waited for; leave one of the two out")


def _names(parameter: str, value: Iterable[str]) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (list, tuple)) else ()
    if not names:
        _refuse(parameter, value, "give a list with the name of at least one column")
    for name in names:
        if not isinstance(name, str) or not name.strip() or "\x00" in name:
            _refuse(parameter, value, f"{name!r} is not the name of a column")
        if names.count(name) > 1:
            _refuse(parameter, value, f"the column {name!r} is named twice; name it once")
    return names


def _check_table_or_sql(table: str | None, sql: str | None, parameters: Mapping[str, Any]) -> None:
    if (table is None) == (sql is None):
        given = "neither is given" if table is None else "both are given"
        msg = f"table={table!r} and sql={sql!r}: {given}; give one: table='schema.name', or sql='SELECT ...'"
        raise ConfigurationError(msg)
    if sql is not None:
        _check_sql(sql, parameters)
        return
    if parameters:
        _refuse("parameters", sorted(parameters), "they belong to a query; give sql='SELECT ...' instead of table")
    parts = table.split(".") if isinstance(table, str) else []
    if not parts or "\x00" in str(table) or not all(part.strip() for part in parts):
        _refuse("table", table, "give the name of a table, as 'name' or 'schema.name'")


def _check_sql(sql: str, parameters: Mapping[str, Any]) -> None:
    if not isinstance(sql, str) or not sql.strip() or "\x00" in sql:
        _refuse("sql", sql, "give the text of one SELECT")
    if ";" in _QUOTED.sub("", sql):
        _refuse("sql", sql, "it has a semicolon, and is read as a part of another query; give one SELECT without it")
    if not isinstance(parameters, Mapping):
        _refuse("parameters", parameters, "give a dictionary with the value of each :name in sql")
    taken = OWN_NAMES, EDGE_NAMES
    own = [name for name in parameters if not isinstance(name, str) or name.startswith(taken)]
    if own:
        names = " or ".join(map(repr, taken))
        _refuse("parameters", sorted(map(str, own)), f"names that begin with {names} are taken; choose others")
    for name in sorted(parameters.keys() - set(_PARAMETER.findall(_QUOTED.sub("", sql)))):
        _refuse("parameters", sorted(parameters), f"sql has no ':{name}'; write it there, or leave the parameter out")


def _check_zone(timezone: str) -> None:
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError) as error:
        msg = f"timezone={timezone!r} cannot be used; give the name of a zone such as 'Europe/Berlin' or 'UTC'"
        raise ConfigurationError(msg) from error


def _refuse(parameter: str, value: object, remedy: str) -> NoReturn:
    msg = f"{parameter}={value!r} cannot be used; {remedy}"
    raise ConfigurationError(msg)
