"""A SQL source over the engine of Airflow's own ``DbApiHook``, as any provider's hook inherits it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, ClassVar

import pymysql
import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from airflow.sdk import Connection
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from airflow_provider_incremental.sources.sql_engine import EngineReader
from tests.integration.sql_stage import Database, Watcher, arguments_of, make_orders, sqlite_database


class FileHook(DbApiHook):
    """The hook of a SQLite file."""

    conn_name_attr = "file_conn_id"
    default_conn_name = "file_default"
    connector: ClassVar[Any] = sqlite3

    @property
    def sqlalchemy_url(self) -> URL:
        return URL.create("sqlite", database=self.connection.host)


class ServerHook(DbApiHook):
    """The hook of a MariaDB or MySQL server."""

    conn_name_attr = "server_conn_id"
    default_conn_name = "server_default"
    connector: ClassVar[Any] = pymysql

    @property
    def sqlalchemy_url(self) -> URL:
        login = {"username": self.connection.login, "password": self.connection.password}
        place = {"host": self.connection.host, "port": self.connection.port, "database": self.connection.schema}
        return URL.create("mysql+pymysql", **login, **place)


def connection_to(database: Database) -> Connection:
    if database.kind == "sqlite":
        return Connection(conn_id="shop", conn_type="sqlite", host=database.url.removeprefix("sqlite:///"))
    given = arguments_of(database.url)
    place = {"host": given["host"], "port": given["port"], "schema": given["database"]}
    return Connection(conn_id="shop", conn_type="mysql", login=given["user"], password=given["password"], **place)


@pytest.mark.parametrize("hook", [FileHook, ServerHook])
async def test_the_engine_of_a_hook_is_all_that_a_reader_needs(
    hook: type[DbApiHook], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Rows inserted one after the other arrive once, each poll on a connection that the hook's engine opens."""
    database = sqlite_database(tmp_path) if hook is FileHook else Database(request.getfixturevalue("mysql_database"))
    make_orders(database)
    asked: list[Any] = []

    async def engine() -> Any:
        asked.append(hook(connection=connection_to(database)).get_sqlalchemy_engine({"poolclass": NullPool}))
        return asked[-1]

    reader = EngineReader(engine=engine)
    source = database.source(reader=reader)
    watcher = Watcher(lambda: source, limit=2)
    for number in range(5):
        database.execute(f"INSERT INTO orders VALUES ({number}, '2026-01-31 12:00:00', 'it''s')")
        await watcher.poll()
    assert watcher.ids == [0, 1, 2, 3, 4]
    assert len(asked) == 1
    await reader.aclose()
