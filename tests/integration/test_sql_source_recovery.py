"""Whatever goes wrong on the database's side: the message says what, the watermark stays, and it is over by itself.

Each fault meets a source that has polled before, and goes away without the source being told.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.sources.sql_engine import EngineReader
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.wiring.connections import ConnectionReader
from harness import postgres_server
from tests.integration.sql_faults import behind_proxy
from tests.integration.sql_stage import Database, Watcher, answering, make_orders
from tests.integration.test_sql_source_feed import Process, delivered, insert


@pytest.fixture(params=["postgresql", "mariadb"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database of each kind of server with an empty table ``orders``."""
    made = Database(request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database"))
    make_orders(made)
    yield made
    await made.aclose()


class Jumping(FakeClock):
    """Moves on when the test says so; who sleeps on it sleeps for real, as a look at open transactions may have to."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def refused(watcher: Watcher, told: str) -> None:
    """Poll twice: both times it is told what is wrong, and the watermark stays."""
    before = watcher.watermark
    for _ in range(2):
        with pytest.raises((SourceError, ConnectionError, ConfigurationError)) as error:
            await watcher.poll()
        assert re.search(told, str(error.value)), str(error.value)
    assert watcher.watermark == before


async def mended(watcher: Watcher, database: Database) -> None:
    """The next row comes, once, without a new source."""
    insert(database, 2)
    async with asyncio.timeout(30):
        while watcher.ids != [1, 2]:
            with contextlib.suppress(ConnectionError):  # a connection from before
                await watcher.drain()
    assert await watcher.drain() == []


async def watching(database: Database, **arguments: Any) -> Watcher:
    """One source that has read the row 1."""
    insert(database, 1)
    source = database.source(**arguments)
    watcher = Watcher(lambda: source)
    await watcher.drain()
    assert watcher.ids == [1]
    return watcher


@pytest.mark.parametrize(
    ("broken", "told", "undone"),
    [
        ("DROP TABLE orders", r"orders.*(create it|no table)", ""),
        (
            "ALTER TABLE orders RENAME COLUMN updated_at TO changed_at",
            "updated_at",
            "ALTER TABLE orders RENAME COLUMN changed_at TO updated_at",
        ),
    ],
)
async def test_a_table_or_a_column_that_goes_and_comes(database: Database, broken: str, told: str, undone: str) -> None:
    """Dropped and made anew, or renamed and back."""
    watcher = await watching(database)
    database.execute(broken)
    await refused(watcher, told)
    database.execute(undone) if undone else make_orders(database)
    await mended(watcher, database)


async def test_a_type_that_changes_is_refused_and_not_cast(database: Database) -> None:
    """The position is of another type: how to set it is told; when the type is back, it fits again."""
    clock = Jumping()
    source = database.source()
    source._clock = clock
    watcher = Watcher(lambda: source)
    insert(database, 1)
    await watcher.drain()
    types = {"postgresql": ("ALTER updated_at TYPE timestamptz", "ALTER updated_at TYPE timestamp")}
    change, back = types.get(database.kind, ("MODIFY updated_at bigint", "MODIFY updated_at datetime(6) NOT NULL"))
    database.execute(f"ALTER TABLE orders {change}")
    told = "The column's type has changed.*it is not cast.*airflow-incremental set"
    await refused(Watcher(database.source, watermark=watcher.watermark), told)
    clock.advance(300)  # a source that goes on polling looks at the table again
    await refused(watcher, told)
    database.execute("DELETE FROM orders", f"ALTER TABLE orders {back}")
    await mended(watcher, database)


@contextlib.contextmanager
def locked(database: Database) -> Iterator[None]:
    """The table in the hands of a session that lets nobody read."""
    with database.engine().connect() as session:
        lock = (
            "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"
            if database.kind == "postgresql"
            else "LOCK TABLES orders WRITE"
        )
        session.execute(sa.text(lock))
        yield
        if database.kind == "mysql":
            session.execute(sa.text("UNLOCK TABLES"))


def set_for_sessions(database: Database, setting: str) -> None:
    """Set something for every session of a PostgreSQL database that begins from now on."""
    name = database.url.rpartition("/")[2]
    database.execute(f"ALTER DATABASE {name} SET {setting}")


@pytest.mark.parametrize("limit", ["lock", "statement"])
async def test_a_limit_of_the_server_is_told_and_over_with_its_cause(database: Database, limit: str) -> None:
    """A table that is locked for longer than the server lets a session, or a statement, wait."""
    if database.kind == "postgresql":
        set_for_sessions(database, f"{limit}_timeout = '3s'")
        told = "another session locks the table" if limit == "lock" else "statement timeout.*add an index"
        watcher = await watching(database)
    else:
        told = "another session locks the table" if limit == "lock" else "max_statement_time exceeded.*add an index"
        connect = "SET lock_wait_timeout = 3" if limit == "lock" else "SET lock_wait_timeout = 100"
        engine = database.engine(connect_args={"init_command": connect})
        seconds = 60.0 if limit == "lock" else 3.0
        watcher = await watching(database, reader=EngineReader(engine=answering(engine), timeout=seconds))
    with locked(database):
        await refused(watcher, told)
    await mended(watcher, database)


async def test_a_deadlock_is_told_and_tried_again(postgres_database: str) -> None:
    """The server chose the poll as the one that has to give way: nothing was read, and the next poll reads it."""
    database = Database(postgres_database)
    make_orders(database)
    database.execute("CREATE TABLE notes (order_id bigint)")
    # A session looks once, so long after it began to wait: the circle has to be closed by then.
    set_for_sessions(database, "deadlock_timeout = '5s'")
    query = "SELECT id, updated_at, name FROM orders LEFT JOIN notes ON order_id = id"
    watcher = await watching(database, sql=query)
    with database.engine().connect() as rival:
        # The other one never looks for a deadlock itself.
        rival.exec_driver_sql("SET LOCAL deadlock_timeout = '1h'")
        rival.exec_driver_sql("LOCK TABLE notes IN ACCESS EXCLUSIVE MODE")
        polling = asyncio.ensure_future(watcher.poll())
        await asyncio.to_thread(until_somebody_waits, database)
        # The poll holds orders and waits for notes: now it is a circle, which ends with the poll.
        await asyncio.to_thread(rival.exec_driver_sql, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(SourceError, match=r"deadlock detected.*nothing was read; the next poll tries again"):
            await polling
    await mended(watcher, database)
    await database.aclose()


def until_somebody_waits(database: Database) -> None:
    """Return as soon as a session waits for a lock on a table."""
    with database.engine().connect() as session:
        while not session.exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted").first():
            session.rollback()


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_server_that_is_restarted_is_read_again(how: str) -> None:
    """Ended in order, or as by a power cut: the connection is lost, then refused, then there again."""
    with postgres_server.restartable({"synchronous_commit": "on"}) as (server, service):
        database = Database(server.create_database())
        make_orders(database)
        watcher = await watching(database)
        getattr(service, how)()
        await refused(
            watcher, "connection was lost|cannot connect to postgresql://127.0.0.1.*check that the server runs"
        )
        service.start()
        await mended(watcher, database)
        await database.aclose()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("how", ["fail", "die"])
async def test_50_a_commit_that_fails_repeats_nothing(database: Database, when: Any, how: str) -> None:
    """Rows and watermark are one transaction: what was not kept is read again, what was kept is not."""
    survives = MemoryStore(clock=FakeClock())
    insert(database, 1, 2, 3)
    store: Any = CrashingStore(survives)
    if how == "die":
        store.die(when, "commit")
    else:
        store.fail(when, "commit", OSError("the network is gone"))
    first = Process(database, store, limit=2)
    with contextlib.suppress(ProcessDied):
        await first.live(60)
    await first.die()
    second = Process(database, survives, limit=2)
    await second.live(60)
    await second.die()
    batches = await survives.history(first.feed.key, limit=100)
    assert sorted(item["id"] for item in await delivered(survives)) == [1, 2, 3]
    assert len({batch.id for batch in batches}) == len(batches)


async def test_a_connection_that_is_deleted_in_airflow_is_told_and_used_again(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open is used on; once it breaks, the connection is missed by its name, and used when it is made again."""
    database = Database(postgres_database)
    make_orders(database)
    async with behind_proxy(database) as (reached, proxy):
        there = reached.url.replace("postgresql", "postgres", 1)
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", there)
        reader = ConnectionReader(conn_id="shop")
        watcher = await watching(database, reader=reader)
        monkeypatch.delenv("AIRFLOW_CONN_SHOP")
        assert await watcher.drain() == []
        await proxy.cut()
        for _ in range(2):  # what was open is lost, and cannot be opened
            with pytest.raises((SourceError, ConnectionError)):
                await watcher.poll()
        await proxy.mend()
        await refused(watcher, "there is no connection 'shop'")
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", there)
        await mended(watcher, database)
        await reader.aclose()
    await database.aclose()


@pytest.mark.parametrize("noticed", [True, False])
async def test_sessions_that_the_server_ended_are_replaced(postgres_database: str, noticed: bool) -> None:
    """While one of them was at hand: whether or not that was noticed, at most it is told that a connection was lost."""
    database = Database(postgres_database)
    make_orders(database)
    watcher = await watching(database)
    for number in range(2, 5):
        ours = "FROM pg_stat_activity WHERE application_name LIKE 'airflow%' AND datname = current_database()"
        ended = database.execute(f"SELECT pg_terminate_backend(pid, 10000) {ours}")
        assert ended
        assert all(each == (True,) for each in ended)
        insert(database, number)
        if noticed:
            for _ in range(20):  # the event loop reads the end of the connection
                await asyncio.sleep(0.01)
        with contextlib.suppress(ConnectionError):
            await watcher.drain()
        await watcher.drain()
        assert watcher.ids[-1] == number
    await database.aclose()
