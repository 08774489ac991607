"""The check of the arguments on rows that are gone, and which of the rows that were found say so of themselves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import looks_like_timestamp

__all__ = ["RemovalArguments", "check_removals", "parted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalArguments:
    """How removals are found: by the keys that are missing, by a column that says so, or not at all."""

    primary_key: tuple[str, ...] | None = None
    deleted_column: str | None = None


def check_removals(
    selection: SqlSelection,
    *,
    removals: bool = False,
    primary_key: str | Sequence[str] | None = None,
    deleted_column: str | None = None,
) -> RemovalArguments:
    """Refuse arguments with which no removals can be found, and return the others in one form.

    :param removals: look for rows that are gone, by their keys.
    :param primary_key: the columns that tell the rows apart; for ``removals=True``.
    :param deleted_column: a column that says of a row that it is deleted: true, a number but 0, or a time. A time that
        never comes (``infinity``, 9999-12-31) says that it is not, and ``-infinity`` that it is.
    :raises ConfigurationError: naming the parameter, its value and what to write instead.
    """
    if not isinstance(removals, bool):
        _refuse("removals", removals, "give True or False")
    names = _names(primary_key)
    if removals and names is None:
        _refuse("removals", True, "the rows have to be told apart; give primary_key=[...] as well")
    if names is not None and not removals:
        _refuse("primary_key", primary_key, "it is for removals=True; give that as well, or leave it out")
    if deleted_column is not None and (not isinstance(deleted_column, str) or not deleted_column.strip()):
        _refuse("deleted_column", deleted_column, "give the name of one column")
    if removals and deleted_column is not None:
        _refuse(
            "deleted_column", deleted_column, "a row would be removed twice with removals=True; give one of the two"
        )
    for parameter, wanted in (("primary_key", names or ()), ("deleted_column", filter(None, [deleted_column]))):
        for name in wanted:
            if selection.columns is not None and name not in selection.columns:
                _refuse(parameter, name, f"it is not among columns={list(selection.columns)!r}; add it there")
    if selection.payload == "range" and (removals or deleted_column is not None):
        given = "removals" if removals else "deleted_column"
        _refuse(given, removals or deleted_column, "a batch without rows does not tell which; give payload='rows'")
    return RemovalArguments(primary_key=names, deleted_column=deleted_column)


_NEVER = ("0000-00-00", "9999-12-31")
"""How dates begin that some tables have in place of NULL: MySQL's zero date, and the last day, as which drivers give
PostgreSQL's ``infinity``."""


def parted(rows: Sequence[Mapping[str, Any]], deleted_column: str, where: str) -> tuple[list[Any], list[Any]]:
    """Return the rows that are there, and those that say of themselves that they are deleted.

    :param where: what is watched, for the message.
    :raises SourceError: when the column is not there, or its value does not say so.
    """
    there: list[Any] = []
    deleted: list[Any] = []
    for row in rows:
        if deleted_column not in row:
            msg = f"deleted_column={deleted_column!r}: {where} has no such column; it has {', '.join(row)}"
            raise SourceError(msg)
        (deleted if _is_deleted(row[deleted_column], deleted_column, where) else there).append(row)
    return there, deleted


def _is_deleted(value: Any, name: str, where: str) -> bool:
    if value is None or isinstance(value, (bool, int, Decimal)):
        return bool(value)
    if isinstance(value, (str, dt.date)) and str(value).startswith(_NEVER):
        return False
    if isinstance(value, dt.date) or looks_like_timestamp(value):
        return True
    msg = (
        f"deleted_column={name!r}: {where} has {value!r} there, which does not say whether the row is deleted; take a "
        "column of booleans, whole numbers or times, or watch a query that makes one"
    )
    raise SourceError(msg)


def _names(primary_key: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if primary_key is None:
        return None
    names = (primary_key,) if isinstance(primary_key, str) else tuple(primary_key)
    fit = all(isinstance(name, str) and name.strip() and "\x00" not in name for name in names)
    if not names or not fit or len(set(names)) < len(names):
        _refuse("primary_key", primary_key, "give a list with the name of at least one column, each once")
    return names


def _refuse(parameter: str, value: object, remedy: str) -> NoReturn:
    msg = f"{parameter}={value!r} cannot be used; {remedy}"
    raise ConfigurationError(msg)
