"""What goes wrong between a SQL source and its database: told without a password, bounded in time, and got over."""

from __future__ import annotations

import contextlib
import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_readers import SqlReader
from tests.integration.sql_faults import behind_proxy
from tests.integration.sql_stage import Database, Watcher, answering, arguments_of

SECRET = "s3cr3t-pass"


@pytest.fixture
def database(served: Database) -> Database:
    """A database with a table ``orders`` of one row."""
    return served


def reader_with(original: Database, **changed: Any) -> SqlReader:
    """A reader whose connection has another login or place than the database's."""
    if original.kind == "postgresql":
        return PostgresReader(arguments=answering(arguments_of(original.url) | changed))
    names = {"user": "username", "password": "password", "database": "database", "host": "host", "port": "port"}
    url = original.engine().url.set(**{names[name]: value for name, value in changed.items()})
    return EngineReader(engine=answering(sa.create_engine(url, poolclass=sa.pool.NullPool)))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"password": SECRET}, "correct the login and the password"),
        ({"user": "nobody_at_all", "password": SECRET}, "correct the login and the password"),
        ({"database": "no_such_place"}, "correct the database's name"),
        ({"port": 1, "password": SECRET}, "check that the server runs, and host, port"),
        ({"host": "nowhere.invalid", "password": SECRET}, "check that the server runs, and host, port"),
    ],
)
async def test_a_connection_that_is_refused_is_told_with_the_remedy_and_no_password(
    database: Database, changed: dict[str, Any], told: str
) -> None:
    """Wrong password, user, database, port or host: what the server said, where it is, what to do."""
    reader = reader_with(database, **changed)
    with pytest.raises(SourceError, match=told) as error:
        await database.source(reader=reader).poll(None, 10, frozenset())
    assert "cannot connect to" in str(error.value)
    assert str(changed.get("host", "127.0.0.1")) in str(error.value)
    assert SECRET not in str(error.value)
    await reader.aclose()


async def test_a_login_that_is_corrected_is_used_without_a_restart(database: Database) -> None:
    """The same source works as soon as the connection in Airflow has the right password."""
    passwords = [SECRET, str(urlsplit(database.url).password)]

    async def connection() -> Any:
        password = passwords.pop(0)
        if database.kind == "postgresql":
            return arguments_of(database.url) | {"password": password}
        return sa.create_engine(database.engine().url.set(password=password), poolclass=sa.pool.NullPool)

    reader: SqlReader = (
        PostgresReader(arguments=connection) if database.kind == "postgresql" else EngineReader(engine=connection)
    )
    source = database.source(reader=reader)
    with pytest.raises(SourceError, match="correct the login"):
        await source.poll(None, 10, frozenset())
    assert (await source.poll(None, 10, frozenset())).size == 1
    await reader.aclose()


async def test_missing_privileges_are_told_and_over_when_they_are_granted(database: Database) -> None:
    """To see the open transactions, then to read: each is told with its GRANT, also when it was lost meanwhile."""
    name = f"reader_{urlsplit(database.url).path.strip('/')}"
    if database.kind == "postgresql":
        database.execute(f"CREATE USER {name} PASSWORD '{SECRET}'")
        see, unsee = f"GRANT pg_read_all_stats TO {name}", f"REVOKE pg_read_all_stats FROM {name}"
        told, drop = f"GRANT pg_read_all_stats TO {name}", f"DROP OWNED BY {name}"
    else:
        database.execute("CREATE TABLE allowed (id int)", f"CREATE USER {name} IDENTIFIED BY '{SECRET}'")
        database.execute(f"GRANT SELECT ON allowed TO {name}")
        see, unsee = f"GRANT PROCESS ON *.* TO {name}", f"REVOKE PROCESS ON *.* FROM {name}"
        told, drop = "GRANT PROCESS", "SELECT 1"
    source = database.source(reader=reader_with(database, user=name, password=SECRET))
    watcher = Watcher(lambda: source)
    try:
        await refused(watcher, "GRANT")
        database.execute(f"GRANT SELECT ON orders TO {name}")
        await refused(watcher, told)
        database.execute(see)
        assert await watcher.drain() != []
        database.execute(unsee, "INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', '')")
        await refused(watcher, told)
        database.execute(see, f"REVOKE SELECT ON orders FROM {name}")
        await refused(watcher, "GRANT SELECT")
        database.execute(f"GRANT SELECT ON orders TO {name}")
        await watcher.drain()
        assert watcher.ids == [1, 2]
    finally:
        await source.aclose()
        database.execute(drop)
        database.execute(f"DROP USER {name}")


async def refused(watcher: Watcher, told: str) -> None:
    """Poll, and see it refused with these words and without a password; the watermark stays."""
    before = watcher.watermark
    with pytest.raises(SourceError, match=re.escape(told)) as error:
        await watcher.poll()
    assert SECRET not in str(error.value)
    assert watcher.watermark == before


async def test_a_server_that_goes_away_and_comes_back_is_read_again(database: Database) -> None:
    """Connections reset and refused, then accepted again: errors meanwhile, then the next row, by the same source."""
    async with behind_proxy(database) as (reached, proxy):
        source = reached.source()
        watcher = Watcher(lambda: source)
        await watcher.drain()
        await proxy.cut()
        for _ in range(2):
            with pytest.raises((SourceError, ConnectionError)):
                await watcher.poll()
        await proxy.mend()
        database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', '')")
        await watcher.drain()
        assert watcher.ids == [1, 2]


async def test_a_connection_that_the_server_ends_is_replaced(database: Database) -> None:
    """An administrator ends every session between two polls: the next poll connects anew and goes on."""
    source = database.source()
    watcher = Watcher(lambda: source)
    await watcher.drain()
    if database.kind == "postgresql":
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'airflow-provider-incremental' AND datname = current_database()"
        )
    database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', '')")
    with contextlib.suppress(Exception):
        await watcher.drain()
    await watcher.drain()
    assert watcher.ids == [1, 2]
