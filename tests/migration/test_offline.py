"""SQL written down without a database makes the same store when a database administrator runs it."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from contextlib import closing

import psycopg2
import pymysql
import pytest
import sqlalchemy as sa
from pymysql.constants import CLIENT

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.migrations.run import check, sql, upgrade
from airflow_provider_incremental.stores.sql.tables import identity


def run_script(url: str, script: str) -> None:
    """Run a script as the database's own client would: none of our code, no parameters."""
    address = sa.engine.make_url(url)
    login = {"host": address.host, "port": address.port, "user": address.username, "password": address.password}
    match address.get_backend_name():
        case "sqlite":
            with closing(sqlite3.connect(address.database)) as connection:
                connection.executescript(script)
        case "postgresql":
            with closing(psycopg2.connect(url)) as connection:
                connection.autocommit = True
                connection.cursor().execute(script)
        case _:
            options = {"database": address.database, "client_flag": CLIENT.MULTI_STATEMENTS, "autocommit": True}
            with closing(pymysql.connect(**login, **options)) as connection, connection.cursor() as cursor:
                cursor.execute(script)
                while cursor.nextset():
                    pass


async def test_makes_the_same_store(database, second_database, on, shape):
    """A store made by the written SQL is like one made by an upgrade, ready for use, and needs no upgrade."""
    await asyncio.to_thread(run_script, database, sql(database))
    await upgrade(second_database)
    await check(database)
    assert await upgrade(database) is False
    assert await on(database, shape) == await on(second_database, shape)


async def test_each_run_makes_an_identity(database, second_database, on):
    """One script run on two databases makes two stores: it holds no identity, the databases make them."""
    script = sql(database)
    found = set()
    for url in (database, second_database):
        await asyncio.to_thread(run_script, url, script)
        row = await on(url, lambda connection: connection.execute(sa.select(identity)).one())
        assert str(uuid.UUID(row.identity)) == row.identity
        found.add(row.identity)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("given", "dialect"),
    [
        ("postgresql+psycopg2://app@db/x", "postgresql"),
        ("postgres://app@db/x", "postgresql"),
        ("mariadb", "mysql"),
        ("mysql+pymysql://app@db/x", "mysql"),
        ("sqlite:////tmp/x.db", "sqlite"),
    ],
)
def test_takes_names_and_addresses(given, dialect):
    """The kind of database may be given by name or by any address of one, whatever the driver."""
    assert sql(given) == sql(dialect)


def test_unknown_kind():
    """A database that no store is made for is refused with those that there are, without its password."""
    with pytest.raises(ConfigurationError, match=r"'oracle'.*postgresql") as refusal:
        sql("oracle://app:hunter2@db/x")
    assert "hunter2" not in str(refusal.value)
