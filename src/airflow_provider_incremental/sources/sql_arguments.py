"""The check of the SQL arguments: what is wrong with them is said when the DAG is parsed, before anything is read."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_texts import (
    bindable,
    check_condition,
    check_parameters,
    check_query,
    layout_free,
    refuse,
    values_to_bind,
)

__all__ = [
    "NullCursor",
    "Payload",
    "SqlSelection",
    "Visibility",
    "check_sql_arguments",
]

Payload = Literal["rows", "range"]
"""``rows``: every item is a row. ``range``: a batch has bounds and a count only, and the consumer reads for itself."""

Visibility = Literal["committed", "none"]
"""``committed``: a poll stays below whatever a transaction that is open can still add. ``none``: it does not look."""

NullCursor = Literal["error", "skip"]
"""What becomes of rows with NULL in a cursor column: they are refused, or left out and counted."""

_SHOWN = 80


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
    where: str | None = None
    null_cursor: NullCursor = "error"
    unique: bool = False
    lateness: float = 0.0

    @property
    def schema_and_name(self) -> tuple[str | None, str]:
        """The two parts of ``table``; everything before the last dot is the schema's name."""
        schema, _, name = (self.table or "").rpartition(".")
        return schema or None, name

    @property
    def text_to_bind(self) -> str:
        """The query as a text for SQLAlchemy, in which every colon that begins no parameter is escaped."""
        return bindable(self.sql or "", self.parameters)

    @property
    def condition_to_bind(self) -> str | None:
        """The condition as such a text, or None."""
        # The line break ends a comment that it may end with.
        return None if self.where is None else f"({bindable(self.where, self.parameters)}\n)"

    @property
    def values_to_bind(self) -> dict[str, Any]:
        """The values of the parameters, by the names that they have in these texts."""
        return values_to_bind(self.parameters)

    @property
    def name(self) -> str:
        """The table, or a short hash of the query and its parameters; layout counts only within literals.

        A condition is a part of what is watched.
        """
        if self.table is not None and self.where is None:
            return self.table
        texts = [layout_free(text or "") for text in (self.sql, self.where)]
        text = json.dumps([*filter(None, texts), sorted(self.parameters.items())], default=repr)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return f"query:{digest}" if self.table is None else f"{self.table}?where={digest}"

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
    where: str | None = None,
    null_cursor: str = "error",
    unique: bool = False,
    lateness: float = 0.0,
) -> SqlSelection:
    """Refuse arguments with which no table or query can be watched, and return the others in one form.

    :param cursor: the columns that give the rows their order, most significant first. No two rows may agree in all of
        them; for a ``table`` the database is asked for the key that guarantees it, for ``sql`` it is your promise.
    :param table: a table's name, or ``schema.table``. Names are quoted where they need it: lower-case ones are the
        database's ordinary names, any other is taken as it is written.
    :param sql: a query without a condition on the cursor, an ORDER BY or a LIMIT of its own: it is read as
        ``SELECT ... FROM (sql)``. This text is trusted, and sent as it is.
    :param parameters: values of ``:name`` in ``sql`` or ``where``, bound by the driver. A colon before any other word,
        or within a text literal, a quoted name or a comment, is only a colon.
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
    :param where: a condition that rows meet for good, such as ``status = :status``; trusted, and sent as it is.
    :param null_cursor: what becomes of rows with NULL in a cursor column: ``error``, or ``skip`` to leave them out,
        counted, until they have a value.
    :param unique: your word that no two rows agree in the cursor's columns, which a query needs; for a table it stands
        in for a key of the table's own.
    :param lateness: how far behind the watermark each poll reads again, for rows that appeared late: seconds where the
        first cursor column is a time, units where it is a number. What was delivered does not come again.
    :raises ConfigurationError: naming the parameter, its value and what to write instead.

    >>> check_sql_arguments(table="shop.orders", cursor=["updated_at", "id"]).cursor
    ('updated_at', 'id')
    """
    names, selected = _cursor_and_columns(cursor, columns)
    _check_table_or_sql(table, sql)
    check_condition(where)
    check_parameters(parameters or {}, sql, where)
    if sql is not None and unique is not True:
        refuse("unique", unique, f"a query has no key that says so: give unique=True if no two rows agree in {names}")
    _check_choice("null_cursor", null_cursor, get_args(NullCursor))
    _check_choice("payload", payload, get_args(Payload))
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        refuse("max_rows", max_rows, "give a whole number of rows a batch, 1 or more")
    _check_edges(settle, lateness, payload)
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
        where=where,
        null_cursor="skip" if null_cursor == "skip" else "error",
        unique=bool(unique),
        lateness=float(lateness),
    )


def _cursor_and_columns(
    cursor: str | Sequence[str], columns: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    if isinstance(cursor, str) and "," in cursor:
        columns_meant = [name.strip() for name in cursor.split(",")]
        refuse("cursor", cursor, f"give the columns as a list: cursor={columns_meant!r}")
    names = _names("cursor", [cursor] if isinstance(cursor, str) else cursor)
    selected = None if columns is None else _names("columns", columns)
    missing = [name for name in names if selected is not None and name not in selected]
    if missing:
        refuse("columns", columns, f"the cursor column {missing[0]!r} is not among them; add it")
    return names, selected


def _check_choice(parameter: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        refuse(parameter, value, f"give one of {', '.join(map(repr, choices))}")


def _is_seconds(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


def _check_edges(settle: float, lateness: float, payload: str) -> None:
    if not _is_seconds(settle):
        refuse("settle", settle, "give a number of seconds, 0 or more")
    if not _is_seconds(lateness):
        refuse("lateness", lateness, "give a number of seconds (of units, for a cursor of numbers), 0 or more")
    if lateness and payload == "range":
        refuse("lateness", lateness, "a range has bounds that a late row lies outside of; give payload='rows'")


def _check_visibility(visibility: str | None, max_hold: float | None) -> None:
    if visibility is not None:
        _check_choice("visibility", visibility, get_args(Visibility))
    if max_hold is None:
        return
    if not _is_seconds(max_hold):
        refuse("max_hold", max_hold, "give a number of seconds, 0 or more, or leave it out to wait for ever")
    if visibility == "none":
        refuse("max_hold", max_hold, "with visibility='none' no transaction is waited for; leave one of the two out")


def _names(parameter: str, value: Iterable[str]) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, (list, tuple)) else ()
    if not names:
        refuse(parameter, value, "give a list with the name of at least one column")
    for name in names:
        if not isinstance(name, str) or not name.strip() or "\x00" in name:
            refuse(parameter, value, f"{name!r} is not the name of a column")
        if names.count(name) > 1:
            refuse(parameter, value, f"the column {name!r} is named twice; name it once")
    return names


def _check_table_or_sql(table: str | None, sql: str | None) -> None:
    if (table is None) == (sql is None):
        given = "neither is given" if table is None else "both are given"
        msg = f"table={table!r} and sql={sql!r}: {given}; give one: table='schema.name', or sql='SELECT ...'"
        raise ConfigurationError(msg)
    if sql is not None:
        check_query(sql)
        return
    parts = table.split(".") if isinstance(table, str) else []
    if not parts or "\x00" in str(table) or not all(part.strip() for part in parts):
        refuse("table", table, "give the name of a table, as 'name' or 'schema.name'")


def _check_zone(timezone: str) -> None:
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError) as error:
        msg = f"timezone={timezone!r} cannot be used; give the name of a zone such as 'Europe/Berlin' or 'UTC'"
        raise ConfigurationError(msg) from error
