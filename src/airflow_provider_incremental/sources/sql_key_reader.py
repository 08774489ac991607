"""The keys of a table or a query as the database has them now: in pages of its own order, and by name.

Only the database compares keys, for it alone knows its collations; here they are told apart, and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_keyset import Statement, relation_of
from airflow_provider_incremental.sources.sql_order import Expression, beyond
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_refusals import refusals
from airflow_provider_incremental.sources.sql_texts import OWN_NAMES

__all__ = ["Key", "KeyReader"]

Key = tuple[Any, ...]

_ASKED_AT_ONCE = 100


class KeyReader:
    """Reads the keys of a selection.

    :param reader: the database; it is not closed.
    :param selection: what is watched.
    :param primary_key: the columns that tell its rows apart.
    """

    def __init__(self, *, reader: SqlReader, selection: SqlSelection, primary_key: Sequence[str]) -> None:
        self.names = tuple(primary_key)
        self._reader = reader
        # Of a table, the database says whether its rows are told apart, whatever the cursor is said to do.
        unique = selection.sql is not None
        self._selection = replace(selection, cursor=self.names, columns=self.names, unique=unique)
        self._dialect = ""

    async def open(self) -> None:
        """Look at the key's columns.

        :raises SourceError: when they are not there, have no order, or do not tell rows apart.
        """
        shape = await self._reader.describe(self._selection)
        for refusal in refusals(self._selection, shape, parameter="primary_key"):
            msg = f"removals=True with primary_key={list(self.names)!r}: {refusal.message}"
            raise SourceError(msg)
        self._dialect = shape.dialect

    async def page(self, low: Key | None, up_to: Key | None, limit: int) -> list[Key]:
        """Return at most so many keys above one and up to another, in the database's order."""
        relation = relation_of(self._selection, self.names)
        columns: list[Expression] = [relation.c[name] for name in self.names]
        bounds = self._filter()
        parameters: dict[str, Any] = {}
        for name, key, upwards in (("above", low, True), ("up_to", up_to, False)):
            if key is not None:
                marks, values = _bound(name, key)
                bounds.append(beyond(self._dialect, columns, marks, upwards=upwards, strict=upwards))
                parameters |= values
        statement = sa.select(*columns).where(*bounds).order_by(*columns).limit(limit)
        return await self._keys(statement, parameters)

    async def existing(self, keys: Sequence[Key]) -> set[Key]:
        """Return those of the keys that rows have now. A key that equals a row's to the database exists."""
        found: set[Key] = set()
        for start in range(0, len(keys), _ASKED_AT_ONCE):
            found |= await self._among(keys[start : start + _ASKED_AT_ONCE])
        return found

    async def _among(self, keys: Sequence[Key]) -> set[Key]:
        rows = set(await self._named(keys))
        if rows <= set(keys) or len(keys) == 1:
            return set(keys) if rows and len(keys) == 1 else rows
        # By a collation, one of these rows is another key's: only the database can say whose.
        return {key for key in keys if await self._named([key])}

    async def _named(self, keys: Sequence[Key]) -> list[Key]:
        relation = relation_of(self._selection, self.names)
        columns: list[Expression] = [relation.c[name] for name in self.names]
        ways: list[Expression] = []
        parameters: dict[str, Any] = {}
        for number, key in enumerate(keys):
            marks, values = _bound(f"key_{number}", key)
            ways.append(sa.and_(*(column == mark for column, mark in zip(columns, marks, strict=True))))
            parameters |= values
        return await self._keys(sa.select(*columns).where(*self._filter(), sa.or_(*ways)), parameters)

    def _filter(self) -> list[Any]:
        condition = self._selection.condition_to_bind
        return [] if condition is None else [sa.text(condition)]

    async def _keys(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Key]:
        rows = await self._reader.fetch(statement, {**self._selection.values_to_bind, **parameters})
        keys = [tuple(row) for row in rows]
        if any(None in key for key in keys):
            msg = (
                f"removals=True with primary_key={list(self.names)!r}: a row of {self._selection} has NULL there, and "
                "could not be told from one that is gone. Name other columns, or watch a query that leaves such rows "
                "out or gives them a value"
            )
            raise SourceError(msg)
        return keys


def _bound(name: str, key: Key) -> tuple[list[Expression], dict[str, Any]]:
    """Return a parameter for each value of a key, under a name that no query's own has, and the values by name."""
    names = [f"{OWN_NAMES}{name}_{place}" for place in range(len(key))]
    return [sa.bindparam(each) for each in names], dict(zip(names, key, strict=True))
