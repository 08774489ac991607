"""An empty database of each kind, and what its schema looks like to the database itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.stores.sql.engine import create_engine, store_url
from airflow_provider_incremental.stores.sql.tables import version_table

T = TypeVar("T")

_POSTGRESQL_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, col_description(attrelid, attnum),
    (SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum)
FROM pg_attribute WHERE attrelid = CAST(:table AS regclass) AND attnum > 0 ORDER BY attnum
"""
_POSTGRESQL_CONSTRAINTS = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = CAST(:table AS regclass) ORDER BY conname
"""
_POSTGRESQL_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = :table ORDER BY indexname"
_POSTGRESQL_COMMENT = "SELECT obj_description(CAST(:table AS regclass))"


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database: SQLite, PostgreSQL, MariaDB or MySQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database")


@pytest.fixture
def second_database(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of another empty database of the same kind."""
    kind = database.partition(":")[0]
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'second.db'}"
        return
    server = request.getfixturevalue("postgres_server" if kind == "postgresql" else "mariadb_server")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture
def on():
    """Run sync work on a connection to a database, in one transaction."""

    async def run(url: str, work: Callable[[sa.engine.Connection], T]) -> T:
        engine = create_engine(store_url(url))
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        finally:
            await engine.dispose()

    return run


@pytest.fixture
def shape() -> Callable[[sa.engine.Connection], dict[str, Any]]:
    """Every table but the version table, in the fullest words that the database has for it."""

    def shape_of(connection: sa.engine.Connection) -> dict[str, Any]:
        describe = {"sqlite": _sqlite_words, "postgresql": _postgresql_words}.get(connection.dialect.name, _mysql_words)
        names = set(sa.inspect(connection).get_table_names()) - {version_table}
        return {name: describe(connection, name) for name in names}

    return shape_of


def _sqlite_words(connection: sa.engine.Connection, table: str) -> list[str]:
    query = sa.text("SELECT sql FROM sqlite_master WHERE tbl_name = :table AND sql IS NOT NULL ORDER BY name")
    return [" ".join(sql.split()) for sql in connection.execute(query, {"table": table}).scalars()]


def _mysql_words(connection: sa.engine.Connection, table: str) -> str:
    return connection.execute(sa.text(f"SHOW CREATE TABLE {table}")).one()[1]


def _postgresql_words(connection: sa.engine.Connection, table: str) -> list[list[Any]]:
    return [
        [tuple(row) for row in connection.execute(sa.text(query), {"table": table})]
        for query in (_POSTGRESQL_COLUMNS, _POSTGRESQL_CONSTRAINTS, _POSTGRESQL_INDEXES, _POSTGRESQL_COMMENT)
    ]
