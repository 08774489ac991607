"""A SQL source's poll is bounded in time, in connections and in threads, whatever the database does."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from tests.integration.sql_faults import behind_proxy, until
from tests.integration.sql_stage import Database, Watcher, answering, arguments_of, make_orders, sqlite_database
from tests.loop_share import loop_share


@pytest.fixture
def database(served: Database) -> Database:
    """A database with a table ``orders`` of one row."""
    return served


async def test_a_hung_network_neither_blocks_the_loop_nor_the_poll(database: Database) -> None:
    """No byte comes any more: the poll ends after its time-out, the loop goes on, and later polls work again."""
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=3)
        source = reached.source(reader=reader)
        watcher = Watcher(lambda: source)
        await watcher.drain()
        proxy.hang()
        async with loop_share() as share:
            with pytest.raises(SourceError, match=r"within 3 s"):
                await watcher.poll()
        assert share.turns > 10
        await proxy.cut()
        await proxy.mend()
        database.execute("INSERT INTO orders VALUES (2, '2026-01-31 12:00:00', '')")
        await until(watcher.drain)
        assert watcher.ids == [1, 2]


async def test_a_slow_query_is_stopped_on_the_server(database: Database) -> None:
    """A query that takes longer than its time is told of and no longer runs afterwards."""
    sleep = "pg_sleep(60)" if database.kind == "postgresql" else "SLEEP(60)"
    source = database.source(
        sql=f"SELECT id, updated_at FROM orders WHERE {sleep} IS NOT NULL", reader=database.reader(timeout=3)
    )
    with pytest.raises(SourceError, match="index"):
        await source.poll(None, 10, frozenset())
    running = {
        "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' "
        "AND pid <> pg_backend_pid() AND datname = current_database()",
        "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%SLEEP(60)%' "
        "AND id <> CONNECTION_ID()",
    }
    async with asyncio.timeout(60):
        while database.execute(running[database.kind]) != [(0,)]:
            await asyncio.sleep(0.05)


async def test_the_servers_own_time_out_is_told(postgres_database: str) -> None:
    """A statement_timeout of the user stops the query, and the message says that there is one."""
    database = Database(postgres_database)
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '')")
    name = postgres_database.rpartition("/")[2]
    database.execute(f"ALTER DATABASE {name} SET statement_timeout = '2s'")
    with pytest.raises(SourceError, match=r"canceling statement due to statement timeout; .*statement_timeout"):
        await database.source(sql="SELECT *, pg_sleep(60) FROM orders").poll(None, 10, frozenset())
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
    reader = PostgresReader(arguments=answering(arguments_of(database.url)), pool_size=1, timeout=3)
    source = database.source(reader=reader)
    async with reader._pool.lend("another source"):
        with pytest.raises(SourceError, match=r"all connections of this process to it have been busy for 3 s"):
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
    async with asyncio.timeout(60):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


async def test_a_network_that_stays_silent_costs_no_thread_for_ever(mysql_database: str) -> None:
    """Nothing comes and nothing breaks: the driver gives up by itself, and the threads are free for the next polls."""
    database = Database(mysql_database)
    make_orders(database)
    before = threading.active_count()
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=3, threads=2)
        source = reached.source(reader=reader)
        await source.poll(None, 1, frozenset())
        proxy.hang()
        with pytest.raises(SourceError, match=r"within 3 s|lost|timed out"):
            await source.poll(None, 1, frozenset())
        async with asyncio.timeout(60):
            while threading.active_count() > before:
                await asyncio.sleep(0.01)


async def test_hung_threads_are_bounded_and_come_back(mysql_database: str) -> None:
    """With two threads hanging, a third poll is refused at once; when the network breaks, all are free again."""
    database = Database(mysql_database)
    make_orders(database)
    before = threading.active_count()
    async with behind_proxy(database) as (reached, proxy):
        reader = reached.reader(timeout=3, threads=2)
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
    async with asyncio.timeout(60):
        while threading.active_count() > before:
            await asyncio.sleep(0.01)


async def test_a_large_poll_leaves_the_loop_its_turns(database: Database) -> None:
    """Sixty thousand rows in one poll: nothing else in the event loop waits for long."""
    database.insert(
        "orders", [{"id": number, "updated_at": "2026-01-31 12:00:00", "name": "x" * 90} for number in range(2, 60_002)]
    )
    source = database.source()
    await source.poll(None, 1, frozenset())
    shares = []
    for _ in range(3):
        async with loop_share() as share:
            assert (await source.poll(None, 70_000, frozenset())).size == 60_001
        shares.append(share.longest)
    assert min(shares) < 1 / 4
