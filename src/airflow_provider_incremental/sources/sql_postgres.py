"""PostgreSQL through asyncpg: one pool for all sources of a connection, each statement prepared once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.sql.elements import TextClause

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_columns import TIMESTAMPS, Column, Kind
from airflow_provider_incremental.sources.sql_keyset import Statement, columns_of
from airflow_provider_incremental.sources.sql_postgres_pool import ConnectArguments, PostgresPool, attributes_of
from airflow_provider_incremental.sources.sql_readers import Shape

__all__ = ["ConnectArguments", "PostgresReader"]

_CURSOR_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8"), Kind.INTEGER),
    **dict.fromkeys(("float4", "float8"), Kind.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), Kind.TEXT),
    "numeric": Kind.DECIMAL,
    "uuid": Kind.UUID,
    "bytea": Kind.BYTES,
    "xid8": Kind.XID,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.INSTANT,
}
# asyncpg sends the ends of Python's range as infinity.
_ENDS = (dt.date.min, dt.time.min), (dt.date.max, dt.time.max)
_INFINITIES: dict[Kind, frozenset[Any]] = {
    Kind.DATE: frozenset({dt.date.min, dt.date.max}),
    Kind.TIMESTAMP: frozenset(dt.datetime.combine(*end) for end in _ENDS),
    Kind.INSTANT: frozenset(dt.datetime.combine(*end, tzinfo=dt.UTC) for end in _ENDS),
}
# asyncpg has an exact Python value for these and for arrays of them; for the others the text that the server writes.
_EXACT = frozenset({*_CURSOR_KINDS, "bool", "oid", "time", "timetz", "json", "jsonb"})

# A constraint that was added NOT VALID says nothing of the rows before it; and a table's own NOT NULL need not hold for
# the tables that inherit from it, whose rows are read with its own.
_FACTS = """
WITH RECURSIVE family AS (
    SELECT pg_catalog.to_regclass($1)::oid AS id
    UNION
    SELECT h.inhrelid FROM family f JOIN pg_catalog.pg_inherits h ON h.inhparent = f.id
    JOIN pg_catalog.pg_class c ON c.oid = f.id AND c.relkind <> 'p'
)
SELECT a.attname, a.atttypmod, NOT EXISTS (
    SELECT FROM family f JOIN pg_catalog.pg_attribute b ON b.attrelid = f.id AND b.attname = a.attname
    WHERE NOT b.attnotnull OR EXISTS (
        SELECT FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = b.attrelid AND k.contype = 'n' AND NOT k.convalidated AND b.attnum = ANY (k.conkey)
    )
) AS never_null, (
    SELECT max(s.seqcache) FROM pg_catalog.pg_sequence s WHERE s.seqrelid IN (
        SELECT d.objid FROM pg_catalog.pg_depend d
        WHERE d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
        UNION ALL
        SELECT d.refobjid FROM pg_catalog.pg_attrdef x
        JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = x.oid
        WHERE x.adrelid = a.attrelid AND x.adnum = a.attnum
    )
) AS ahead
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
"""
# A table's key does not hold for the tables that inherit from it, whose rows are read with its own; nor does one by
# another collation, where the column's own calls texts equal that are not the same.
_KEYS = """
SELECT array_agg(a.attname::text) AS columns FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey, i.indcollation) WITH ORDINALITY AS part(attnum, compared_by, number)
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.attnum
WHERE i.indrelid = pg_catalog.to_regclass($1) AND i.indisunique AND i.indisvalid
AND i.indpred IS NULL AND i.indexprs IS NULL AND part.number <= i.indnkeyatts AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhparent
    WHERE h.inhparent = i.indrelid AND c.relkind <> 'p'
)
GROUP BY i.indexrelid
HAVING bool_and(a.attcollation = part.compared_by OR NOT EXISTS (
    SELECT FROM pg_catalog.pg_collation c WHERE c.oid = a.attcollation AND NOT c.collisdeterministic
))
"""
# Rows that another server's transactions add: its partitions count as the table's own.
_ELSEWHERE = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_foreign_table f WHERE f.ftrelid = ANY (t.ids)) AS is_foreign,
EXISTS (SELECT FROM pg_catalog.pg_subscription_rel s WHERE s.srrelid = ANY (t.ids)) AS is_subscribed,
EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = ANY (t.ids) AND c.relkind = 'm') AS is_materialized
FROM (
    SELECT array_agg(relid::oid) || pg_catalog.to_regclass($1)::oid AS ids
    FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($1))
) t
"""
_FORKS = ("Redshift", "-YB-", "Greenplum", "Cloudberry")
_DIALECT: Callable[..., Any] = PGDialect


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    names: tuple[str, ...]
    values: Mapping[str, Any]


class PostgresReader:
    """Reads PostgreSQL for any number of sources, which share its pool.

    :param arguments: asked for whenever a pool is opened: at first, and after the server could not be reached or
        refused the login, so that a connection that was corrected is used without a restart.
    :param timeout: seconds for one statement, and for getting a connection; then it is cancelled.
    :param pool_size: at most so many connections at once; they are opened as they are needed.
    """

    def __init__(
        self, *, arguments: Callable[[], Awaitable[ConnectArguments]], timeout: float = 60.0, pool_size: int = 4
    ) -> None:
        self._timeout = timeout
        self._pool = PostgresPool(arguments=arguments, timeout=timeout, size=pool_size)
        self._dialect = _DIALECT(paramstyle="pyformat")
        self._compiled: WeakKeyDictionary[Statement, _Compiled] = WeakKeyDictionary()

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now, from the server's catalogue."""
        everything = _compile(columns_of(replace(selection, columns=None), rows=True), self._dialect)
        async with self._pool.lend(str(selection)) as connection:
            attributes = await attributes_of(connection, everything.text, self._timeout)
            facts, keys = {}, None
            blind = _fork(await connection.fetchval("SELECT version()"))
            if selection.table is not None:
                schema, name = selection.schema_and_name
                quoted = self._dialect.identifier_preparer.format_table(sa.table(name, schema=schema))
                quoted = quoted.replace("%%", "%")  # which the dialect doubles for a driver's text, and this is a value
                facts = {row["attname"]: row for row in await connection.fetch(_FACTS, quoted)}
                keys = [frozenset(row["columns"]) for row in await connection.fetch(_KEYS, quoted)]
                blind = blind or _elsewhere(await connection.fetchrow(_ELSEWHERE, quoted))
        columns = [_column(attribute, facts.get(attribute.name)) for attribute in attributes]
        return Shape(place=str(self._pool.place), dialect=self._dialect.name, columns=columns, keys=keys, blind=blind)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant."""
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = self._compiled[statement] = _compile(statement, self._dialect)
        values = {**compiled.values, **parameters}
        async with self._pool.lend("the query") as connection:
            arguments = [values[name] for name in compiled.names]
            rows: Sequence[Sequence[Any]] = await connection.fetch(compiled.text, *arguments, timeout=self._timeout)
            return rows

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection."""
        async with self._pool.lend("the open transactions") as connection:
            compiled = [_compile(statement, self._dialect) for statement in statements]
            return [
                await connection.fetch(each.text, *map(each.values.get, each.names), timeout=self._timeout)
                for each in compiled
            ]

    async def aclose(self) -> None:
        """Close the pool; queries that run are cut off after a few seconds."""
        await self._pool.aclose()


def _compile(statement: Statement | TextClause, dialect: Any) -> _Compiled:
    """Write a statement with asyncpg's numbered parameters."""
    compiled = statement.compile(dialect=dialect)
    names = tuple(compiled.params)
    numbered = {name: f"${number}" for number, name in enumerate(names, start=1)}
    return _Compiled(compiled.string % numbered, names, dict(compiled.params))


def _fork(version: str) -> str | None:
    """Return why a server that speaks PostgreSQL's language does not show its transactions as PostgreSQL does."""
    if version.startswith("PostgreSQL ") and not any(fork in version for fork in _FORKS):
        return None
    return f"{' '.join(version.split()[:2])} is not PostgreSQL itself, and does not show every open transaction"


def _elsewhere(fact: Any) -> str | None:
    if fact["is_foreign"]:
        return "it has a foreign table, whose transactions are open at another server"
    if fact["is_subscribed"]:
        return "it is filled by logical replication, from transactions that are open at another server"
    if fact["is_materialized"]:
        return "it is a materialized view, which shows at a refresh what was committed before"
    return None


def _column(attribute: Any, fact: Any) -> Column:
    kind = _CURSOR_KINDS.get(attribute.type.name) if attribute.type.schema == "pg_catalog" else None
    infinities = _INFINITIES.get(kind, frozenset()) if kind else frozenset()
    digits = fact["atttypmod"] if fact is not None and kind in TIMESTAMPS else -1
    return Column(
        name=attribute.name,
        kind=kind,
        type_name=f"of type {attribute.type.name}",
        nullable=fact is None or not fact["never_null"],
        as_text=attribute.type.schema != "pg_catalog" or attribute.type.name.removesuffix("[]") not in _EXACT,
        resolution=10.0**-digits if digits >= 0 else 1e-6,
        unsendable=infinities,
        ahead=(fact is not None and fact["ahead"]) or 1,
    )
