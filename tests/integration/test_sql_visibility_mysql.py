"""What is particular to MariaDB and MySQL: statements that wait, lists that are kept, XA, replicas."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_edge import UpperEdge
from airflow_provider_incremental.sources.sql_visibility_mysql import fresh_look
from tests.integration.sql_stage import Database, Watcher, make_orders


@pytest.fixture
async def database(mysql_database: str) -> AsyncIterator[Database]:
    """A database with an empty table ``orders``."""
    made = Database(mysql_database)
    make_orders(made)
    yield made
    await made.aclose()


@contextlib.contextmanager
def session(database: Database) -> Iterator[Any]:
    """A session that says itself where its transactions begin and end."""
    parts = urlsplit(database.url)
    login = {"user": parts.username, "password": parts.password, "database": parts.path.lstrip("/")}
    with contextlib.closing(
        pymysql.connect(host=parts.hostname, port=parts.port, autocommit=True, **login)
    ) as connection:
        yield connection.cursor()


async def until_waiting(database: Database) -> None:
    """Wait until a statement waits for a table."""
    while not database.execute("SELECT 1 FROM information_schema.processlist WHERE STATE LIKE '%metadata lock%'"):
        await asyncio.sleep(0.05)


async def drained(watcher: Watcher, count: int) -> list[int]:
    """Poll until so many rows have come."""
    async with asyncio.timeout(60):
        while len(watcher.ids) < count:
            await watcher.drain()
            await asyncio.sleep(0.05)
    return watcher.ids


async def test_38_a_statement_that_waits_is_no_transaction_yet_and_waited_for(database: Database) -> None:
    """Its row has the time at which it began, from before it waited; its transaction begins after that."""
    source = database.source()
    watcher = Watcher(lambda: source)
    with session(database) as locks, session(database) as slow, session(database) as fast:
        locks.execute("LOCK TABLES orders READ")
        slow.execute("BEGIN")
        waiting = asyncio.create_task(
            asyncio.to_thread(slow.execute, "INSERT INTO orders VALUES (1, NOW(6), 'waited')")
        )
        await until_waiting(database)
        assert await watcher.poll() == []
        await asyncio.sleep(1.1)
        locks.execute("UNLOCK TABLES")
        await waiting
        fast.execute("INSERT INTO orders VALUES (2, NOW(6), '')")
        await asyncio.sleep(2.2)  # the row 2 is older than the edge of a database without transactions
        assert await watcher.drain() == []
        assert watcher.note is not None
        assert "held back by the transaction" in watcher.note
        slow.execute("COMMIT")
    assert await drained(watcher, 2) == [1, 2]


async def test_38_a_statement_that_waits_within_a_trigger_is_waited_for(database: Database) -> None:
    """The list of what runs shows the SELECT that the trigger waits in, and not the INSERT that runs it."""
    source = database.source()
    watcher = Watcher(lambda: source)
    with session(database) as lock, session(database) as slow, session(database) as fast:
        lock.execute(
            "CREATE TRIGGER waits BEFORE INSERT ON orders FOR EACH ROW BEGIN DECLARE got int; "
            "IF NEW.name = 'waits' THEN SELECT GET_LOCK('orders', 60) INTO got; END IF; END"
        )
        lock.execute("SELECT GET_LOCK('orders', 1)")
        await watcher.poll()
        waiting = asyncio.create_task(asyncio.to_thread(slow.execute, "INSERT INTO orders VALUES (1, NOW(6), 'waits')"))
        while not database.execute("SELECT 1 FROM information_schema.processlist WHERE STATE = 'User lock'"):
            await asyncio.sleep(0.05)
        fast.execute("INSERT INTO orders VALUES (2, NOW(6), '')")
        await asyncio.sleep(2.2)  # the row 2 is older than the edge of a database without transactions
        assert await watcher.drain() == []
        lock.execute("SELECT RELEASE_LOCK('orders')")
        await waiting
    assert await drained(watcher, 2) == [1, 2]


async def test_a_list_that_the_server_has_kept_is_no_look(database: Database) -> None:
    """While somebody reads the list of transactions all the time the server renews it for nobody: that is found out."""
    database.execute("INSERT INTO orders VALUES (0, NOW(6), '')")  # so that the type shows
    source = database.source(cursor="id")
    await source.poll(None, 1, frozenset())
    plan = source._plan
    assert plan is not None
    stop = asyncio.Event()

    async def read_all_the_time() -> None:
        with session(database) as monitor:
            while not stop.is_set():
                await asyncio.to_thread(monitor.execute, "SELECT * FROM information_schema.innodb_trx")
                await asyncio.sleep(0.01)

    async def look_until_told() -> None:
        while True:  # on a busy machine the list may be read too rarely to be kept
            await UpperEdge(reader=source._reader, plan=plan, clock=source._clock).find(())

    reading = asyncio.create_task(read_all_the_time())
    await asyncio.sleep(0.2)
    assert await fresh_look(source._reader, plan, (1,)) is None
    database.execute("INSERT INTO orders VALUES (1, NOW(6), '')")
    with pytest.raises(ConnectionError, match="an answer that it had kept"):
        await look_until_told()
    stop.set()
    await reading
    assert (await source.poll(None, 1, frozenset())).size == 1


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_a_prepared_transaction_is_waited_for_without_its_session(
    database: Database, cursor: list[str]
) -> None:
    """XA PREPARE outlives the session; it is waited for by a process that comes later, too."""
    with session(database) as run:
        run.execute("XA START 'kept'")
        run.execute("INSERT INTO orders VALUES (1, NOW(6), '')")
        run.execute("XA END 'kept'")
        run.execute("XA PREPARE 'kept'")
    database.execute("INSERT INTO orders VALUES (2, NOW(6), '')")
    await asyncio.sleep(2.2)
    watcher = Watcher(lambda: database.source(cursor=cursor))
    assert await watcher.poll() == []
    assert watcher.note is not None
    assert "held back by the prepared transaction" in watcher.note
    with session(database) as run:
        run.execute("XA COMMIT 'kept'")
    assert await drained(watcher, 2) == [1, 2]


async def test_a_replica_is_refused(database: Database) -> None:
    """A server whose threads apply another's changes does not know which transactions are open there."""
    database.execute("INSERT INTO orders VALUES (1, NOW(6), '')")
    source = database.source(cursor="id")
    with session(database) as run:
        run.execute("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x', MASTER_PASSWORD='x'")
        run.execute("START SLAVE")
        try:
            with pytest.raises(SourceError, match="this server is a replica"):
                await source.poll(None, 1, frozenset())
        finally:
            run.execute("STOP SLAVE")
            run.execute("RESET SLAVE ALL")
    assert (await source.poll(None, 1, frozenset())).size == 1
