"""What goes wrong between a SQL source and its database: told without a password, bounded in time, and got over."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_readers import SqlReader
from tests.integration.sql_stage import Database, Watcher, answering, arguments_of, make_orders, sqlite_database
from tests.integration.tcp_proxy import Proxy, proxy_to

SECRET = "s3cr3t-pass"


@pytest.fixture(params=["postgresql", "mariadb"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database with a table ``orders`` of one row."""
    made = Database(request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database"))
    make_orders(made)
    made.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '')")
    yield made
    await made.aclose()


@contextlib.asynccontextmanager
async def behind_proxy(database: Database) -> AsyncIterator[tuple[Database, Proxy]]:
    """The same database at the end of a network that the test holds in its hands."""
    parts = urlsplit(database.url)
    async with proxy_to(str(parts.hostname), int(parts.port or 0)) as proxy:
        there = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}")
        reached = replace(database, url=there.geturl(), _readers=[])
        try:
            yield reached, proxy
        finally:
            await reached.aclose()


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


async def test_a_missing_privilege_is_told_and_over_when_it_is_granted(database: Database) -> None:
    """Without SELECT the message says to grant it; afterwards the same source reads."""
    name = f"reader_{urlsplit(database.url).path.strip('/')}"
    if database.kind == "postgresql":
        database.execute(f"CREATE USER {name} PASSWORD '{SECRET}'")
        grant, drop = f"GRANT SELECT ON orders TO {name}", f"DROP OWNED BY {name}"
    else:
        database.execute("CREATE TABLE allowed (id int)", f"CREATE USER {name} IDENTIFIED BY '{SECRET}'")
        database.execute(f"GRANT SELECT ON allowed TO {name}")
        grant, drop = f"GRANT SELECT ON orders TO {name}", "SELECT 1"
    source = database.source(reader=reader_with(database, user=name, password=SECRET))
    try:
        with pytest.raises(SourceError, match="grant"):
            await source.poll(None, 10, frozenset())
        database.execute(grant)
        assert (await source.poll(None, 10, frozenset())).size == 1
    finally:
        await source.aclose()
        database.execute(drop)
        database.execute(f"DROP USER {name}")


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


async def test_a_hung_network_neither_blocks_the_loop_nor_the_poll(database: Database) -> None:
    """No byte comes any more: the poll ends after its time-out, the loop goes on, and later polls work again."""
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=0.5)
        source = reached.source(reader=reader)
        watcher = Watcher(lambda: source)
        await watcher.drain()
        proxy.hang()
        began = time.monotonic()
        async with longest_gap() as gap:
            with pytest.raises(SourceError, match=r"within 0\.5 s"):
                await watcher.poll()
        assert time.monotonic() - began < 12
        assert max(gap) < 0.2
        await proxy.cut()
        await proxy.mend()
        database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', '')")
        await until(watcher.drain)
        assert watcher.ids == [1, 2]


async def test_a_slow_query_is_stopped_on_the_server(database: Database) -> None:
    """A query that takes longer than its time is told of and no longer runs afterwards."""
    sleep = "pg_sleep(60)" if database.kind == "postgresql" else "SLEEP(60)"
    source = database.source(
        sql=f"SELECT id, updated_at FROM orders WHERE {sleep} IS NOT NULL", reader=database.reader(timeout=1.0)
    )
    with pytest.raises(SourceError, match="index"):
        await source.poll(None, 10, frozenset())
    running = {
        "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' "
        "AND pid <> pg_backend_pid() AND datname = current_database()",
        "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(60)%' "
        "AND id <> CONNECTION_ID()",
    }
    async with asyncio.timeout(10):
        while database.execute(running[database.kind]) != [(0,)]:
            await asyncio.sleep(0.05)


async def test_the_servers_own_time_out_is_told(postgres_database: str) -> None:
    """A statement_timeout of the user stops the query, and the message says that there is one."""
    database = Database(postgres_database)
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '')")
    name = postgres_database.rpartition("/")[2]
    database.execute(f"ALTER DATABASE {name} SET statement_timeout = '200ms'")
    with pytest.raises(SourceError, match=r"canceling statement due to statement timeout; .*statement_timeout"):
        await database.source(sql="SELECT *, pg_sleep(5) FROM orders").poll(None, 10, frozenset())
    await database.aclose()


async def test_many_sources_share_few_connections(database: Database) -> None:
    """Forty sources poll at once through a reader of three connections: all find the row, and no more were open."""
    limit = {"pool_size": 3} if database.kind == "postgresql" else {"threads": 3}
    reader = database.reader(**limit)
    counted = {
        "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow-provider-incremental' "
        "AND datname = current_database()",
        "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
    }
    most = 0
    sources = [database.source(reader=reader) for _ in range(40)]
    polls = asyncio.gather(*(source.poll(None, 10, frozenset()) for source in sources))
    while not polls.done():
        ((now,),) = await asyncio.to_thread(database.execute, counted[database.kind])
        most = max(most, now)
    assert [found.size for found in await polls] == [1] * 40
    assert 1 <= most <= 3


async def test_when_every_connection_is_busy_the_poll_says_so(postgres_database: str) -> None:
    """The only connection is lent out for longer than a poll waits: that is told, and over when it is given back."""
    database = Database(postgres_database)
    make_orders(database)
    reader = PostgresReader(arguments=answering(arguments_of(database.url)), pool_size=1, timeout=0.3)
    source = database.source(reader=reader)
    async with reader._reading("another source"):
        with pytest.raises(SourceError, match=r"all connections of this process to it have been busy for 0\.3 s"):
            await source.poll(None, 1, frozenset())
    assert (await source.poll(None, 1, frozenset())).size == 0
    await reader.aclose()


async def test_polls_that_are_cancelled_leave_their_connections_in_order(database: Database) -> None:
    """Ten watchers are stopped in the middle of a query: the one connection is free again, and nothing runs on."""
    one = {"pool_size": 1} if database.kind == "postgresql" else {"threads": 10}
    sleep = "pg_sleep(2)" if database.kind == "postgresql" else "SLEEP(2)"
    reader = database.reader(**one)
    for _ in range(10):
        slow = database.source(sql=f"SELECT id, updated_at FROM orders WHERE {sleep} IS NOT NULL", reader=reader)
        task = asyncio.create_task(slow.poll(None, 1, frozenset()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await database.source(reader=reader).poll(None, 10, frozenset())).size == 1


async def test_a_slow_query_of_sqlite_is_interrupted(tmp_path: Path) -> None:
    """A file has no server that could stop a query: it is stopped from here, and its thread ends."""
    database = sqlite_database(tmp_path)
    before = threading.active_count()
    endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id FROM n"
    source = database.source(
        sql=f"SELECT max(id) AS id FROM ({endless})", cursor="id", reader=database.reader(timeout=0.2)
    )
    with pytest.raises(SourceError, match="no answer within"):
        await source.poll(None, 10, frozenset())
    async with asyncio.timeout(20):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


async def test_a_network_that_stays_silent_costs_no_thread_for_ever(mysql_database: str) -> None:
    """Nothing comes and nothing breaks: the driver gives up by itself, and the threads are free for the next polls."""
    database = Database(mysql_database)
    make_orders(database)
    before = threading.active_count()
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=0.3, threads=2)
        source = reached.source(reader=reader)
        await source.poll(None, 1, frozenset())
        proxy.hang()
        with pytest.raises(SourceError, match=r"within 0\.3 s|lost|timed out"):
            await source.poll(None, 1, frozenset())
        async with asyncio.timeout(30):
            while threading.active_count() > before:
                await asyncio.sleep(0.01)


async def test_hung_threads_are_bounded_and_come_back(mysql_database: str) -> None:
    """With two threads hanging, a third poll is refused at once; when the network breaks, all are free again."""
    database = Database(mysql_database)
    make_orders(database)
    before = threading.active_count()
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=0.3, threads=2)
        sources = [reached.source(reader=reader) for _ in range(8)]
        await asyncio.gather(*(source.poll(None, 1, frozenset()) for source in sources[:2]))
        proxy.hang()
        outcomes = await asyncio.gather(
            *(source.poll(None, 1, frozenset()) for source in sources), return_exceptions=True
        )
        told = sorted("was not begun" in str(outcome) for outcome in outcomes)
        assert told == [False] * 2 + [True] * 6
        assert threading.active_count() <= before + 2
        await proxy.cut()
        await proxy.mend()
        assert (await until(lambda: sources[0].poll(None, 1, frozenset()))).size == 0
    async with asyncio.timeout(20):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


async def test_a_large_poll_leaves_the_loop_its_turns(database: Database) -> None:
    """Ten thousand rows in one poll: nothing else in the event loop waits for long."""
    database.insert(
        "orders", [{"id": number, "updated_at": "2026-01-31 12:00:00", "name": "x" * 90} for number in range(2, 10_002)]
    )
    source = database.source()
    await source.poll(None, 1, frozenset())
    gaps = []
    for _ in range(3):
        async with longest_gap() as gap:
            assert (await source.poll(None, 20_000, frozenset())).size == 10_001
        gaps.append(max(gap))
    assert min(gaps) < 0.05


@contextlib.asynccontextmanager
async def longest_gap() -> AsyncIterator[list[float]]:
    """Collect how long the event loop let a task wait that asked for a turn."""
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            asked = time.monotonic()
            await asyncio.sleep(0.001)
            gaps.append(time.monotonic() - asked - 0.001)

    ticking = asyncio.create_task(tick())
    try:
        yield gaps
    finally:
        await asyncio.sleep(0)
        ticking.cancel()


async def until(action: Any) -> Any:
    """Do it again until it works; what a broken network has left behind ends in its own time."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await action()
            except (SourceError, ConnectionError):
                await asyncio.sleep(0.05)
