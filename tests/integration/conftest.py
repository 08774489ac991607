"""A migrated database of each kind and stores on it; a database of each kind, and S3 servers, for sources to watch."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.stores.sql.store import SqlStore
from harness.servers import S3Server
from tests.databases import migrated
from tests.integration.s3_landing import Landing, landing_on, moto
from tests.integration.sql_stage import Database, make_orders, sqlite_database
from tests.integration.sql_watching import Start, Watching


@pytest.fixture(params=["postgresql", "mysql", "sqlite"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database of each kind, with the store's tables."""
    if request.param == "sqlite":
        return await migrated(f"sqlite:///{tmp_path}/store.db")
    return await migrated(
        request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database")
    )


@pytest.fixture
async def postgres(postgres_database: str) -> str:
    """The address of a PostgreSQL database with the store's tables."""
    return await migrated(postgres_database)


@pytest.fixture
async def mysql(mysql_database: str) -> str:
    """The address of a MariaDB or MySQL database with the store's tables."""
    return await migrated(mysql_database)


@pytest.fixture
async def sqlite(tmp_path: Path) -> str:
    """The address of a SQLite file with the store's tables."""
    return await migrated(f"sqlite:///{tmp_path}/store.db")


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
async def watched(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database of each kind, for a source to watch."""
    if request.param == "sqlite":
        made = sqlite_database(tmp_path)
    else:
        fixture = "postgres_database" if request.param == "postgresql" else "mysql_database"
        made = Database(request.getfixturevalue(fixture))
    yield made
    await made.aclose()


@pytest.fixture
async def watching(watched: Database) -> AsyncIterator[Start]:
    """Start watching for rows that are gone; what is started ends with the test."""
    started: list[Watching] = []

    def start(**arguments: Any) -> Watching:
        started.append(Watching(watched, **arguments))
        return started[-1]

    yield start
    for each in started:
        await each.die()


@pytest.fixture(params=["postgresql", "mariadb"])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database of each kind of server, with a table ``orders`` of one row, for a source to watch."""
    made = Database(request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database"))
    make_orders(made)
    made.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '')")
    yield made
    await made.aclose()


@pytest.fixture
async def watched_postgres(postgres_database: str) -> AsyncIterator[Database]:
    """An empty PostgreSQL database, for a source to watch."""
    made = Database(postgres_database)
    yield made
    await made.aclose()


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., SqlStore]]:
    """Open stores that are closed after the test, and that then have every connection back."""
    async with contextlib.AsyncExitStack() as stack:

        def open_store(url: str, **options: Any) -> SqlStore:
            store = SqlStore(url=url, **options)
            stack.push_async_callback(_close, store)
            return store

        yield open_store
    await asyncio.to_thread(_join_connection_threads)


async def _close(store: SqlStore) -> None:
    out = store.database.lent
    await store.aclose()
    assert out == 0, f"{out} connections were not given back"


def _join_connection_threads() -> None:
    """Wait for the threads in which SQLite's connections lived: a closed store leaves none."""
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            thread.join(20)
            assert not thread.is_alive(), f"{thread.name} outlives its store"


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Server]:
    """A second S3 server, which differs from the first in many details."""
    with moto() as server:
        yield server


@pytest.fixture(params=["s3_server", "moto_server"])
def server(request: pytest.FixtureRequest) -> S3Server:
    """Each of the S3 servers."""
    return request.getfixturevalue(request.param)


@pytest.fixture
async def landing(server: S3Server) -> AsyncIterator[Landing]:
    """A bucket on each of them."""
    async with landing_on(server) as landing:
        yield landing
