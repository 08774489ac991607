"""What the store says when its database is not there, not ready, or refuses: a typed error, the remedy, no password."""

from __future__ import annotations

import asyncio
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import (
    StoreError,
    StoreNotMigratedError,
    StoreUnavailableError,
)
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.sql.failures import DatabaseFailedError
from airflow_provider_incremental.stores.sql.store import SqlStore
from harness.servers import DatabaseServer

KEY = WatermarkKey("orders")
WATCHES = Watches("table orders", "id")
SECRET = "hunter2-of-the-store"
OpenStore = Callable[..., SqlStore]


def changed(url: str, **parts: object) -> str:
    """An address with other parts; the password is the secret."""
    split = urlsplit(url)
    given = {"host": split.hostname, "port": split.port, "user": split.username, "database": split.path[1:]} | parts
    return f"{split.scheme}://{given['user']}:{SECRET}@{given['host']}:{given['port']}/{given['database']}"


def free_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def refusal(store: SqlStore, kind: type[StoreError]) -> str:
    """What every kind of operation raises; nowhere in the whole chain of errors is the password."""
    watches = Watches("table orders", "id")
    acts = (
        store.identity(),
        store.load(KEY),
        store.register(KEY, watches),
        store.report(KEY, PollReport()),
        store.due(KEY, 60),
        store.claim(Selector("orders"), "load", "holder", 60),
        store.rewind(KEY, 1, reread=False),
    )
    shown = ""
    for act in acts:
        with pytest.raises(kind) as caught:
            await act
        assert type(caught.value) is kind
        shown = str(caught.value)
        whole = "".join(traceback.format_exception(caught.value))
        assert SECRET not in whole
        assert "[incremental] store" in shown
    return shown


@pytest.fixture(params=["postgres_database", "mysql_database"])
def server_database(request: pytest.FixtureRequest) -> str:
    """The address of an empty database of each server."""
    return str(request.getfixturevalue(request.param))


async def test_nobody_listens(server_database: str, opened: OpenStore) -> None:
    """A refused connection is an unavailable store, named with its host."""
    store = opened(changed(server_database, port=free_port()))
    assert "127.0.0.1" in await refusal(store, StoreUnavailableError)


async def test_no_such_host(server_database: str, opened: OpenStore) -> None:
    """A name that nobody resolves is an unavailable store."""
    store = opened(changed(server_database, host="no-such-host.invalid"))
    assert "no-such-host.invalid" in await refusal(store, StoreUnavailableError)


async def test_wrong_password(server_database: str, opened: OpenStore) -> None:
    """A refused login is an unavailable store; the password is not shown."""
    await refusal(opened(changed(server_database)), StoreUnavailableError)


async def test_no_such_database(server_database: str, opened: OpenStore) -> None:
    """A database that is not there is an unavailable store."""
    store = opened(server_database.rpartition("/")[0] + "/no_such_database")
    assert "no_such_database" in await refusal(store, StoreUnavailableError)


async def test_a_database_that_takes_no_connections(
    postgres_server: DatabaseServer, postgres_database: str, opened: OpenStore
) -> None:
    """As during a restore: an unavailable store, which is waited for."""
    postgres_server.execute(f"ALTER DATABASE {urlsplit(postgres_database).path[1:]} ALLOW_CONNECTIONS false")
    assert "not currently accepting connections" in await refusal(opened(postgres_database), StoreUnavailableError)


async def test_a_server_that_accepts_and_says_nothing(postgres_database: str, opened: OpenStore) -> None:
    """A connection that hangs ends by its timeout, and is an unavailable store."""
    hang = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        store = opened(changed(postgres_database, port=port) + "?connect_timeout=0.2")
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            await store.load(KEY)
    finally:
        hang.set()
        server.close()
        await server.wait_closed()


async def test_an_empty_database(server_database: str, opened: OpenStore) -> None:
    """Missing tables name the setting and the command that makes them."""
    assert "airflow-incremental db upgrade" in await refusal(opened(server_database), StoreNotMigratedError)


async def test_an_empty_file(tmp_path: Path, opened: OpenStore) -> None:
    """The same for SQLite, whose file is named."""
    shown = await refusal(opened(f"sqlite:///{tmp_path}/empty.db"), StoreNotMigratedError)
    assert "airflow-incremental db upgrade" in shown
    assert "empty.db" in shown


async def test_a_missing_column(database: str, opened: OpenStore) -> None:
    """A table from an older release names the command that upgrades it, on reading and on writing."""
    store = opened(database)
    watermark = await store.register(KEY, WATCHES)
    async with store.database.engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE asset_watermarks DROP COLUMN note")
    for act in (store.load(KEY), store.commit(watermark, 1, [], PollReport()), store.report(KEY, PollReport())):
        with pytest.raises(StoreNotMigratedError, match="airflow-incremental db upgrade"):
            await act


async def test_a_store_without_identity(database: str, opened: OpenStore) -> None:
    """Tables that the migrations did not make have no identity, and cannot be announced."""
    store = opened(database)
    async with store.database.engine.begin() as connection:
        await connection.exec_driver_sql("DELETE FROM asset_watermark_store")
    for act in (store.identity(), store.register(KEY, WATCHES)):
        with pytest.raises(StoreNotMigratedError, match="no identity"):
            await act


async def test_a_folder_that_is_not_there(opened: OpenStore, tmp_path: Path) -> None:
    """A SQLite file that cannot be opened is an unavailable store."""
    store = opened(f"sqlite:///{tmp_path}/no/such/folder/store.db")
    assert "no/such/folder" in await refusal(store, StoreUnavailableError)


async def test_a_file_that_is_no_database(opened: OpenStore, tmp_path: Path) -> None:
    """A file of something else is not taken for a store, and not changed."""
    path = tmp_path / "notes.txt"
    path.write_text("nothing of a database " * 100)
    await refusal(opened(f"sqlite:///{path}"), StoreUnavailableError)
    assert path.read_text().startswith("nothing of")


async def test_a_permission_that_is_missing(postgres: str, opened: OpenStore) -> None:
    """A refused statement is the store's failure with the database's words: no migration would help."""
    owner = opened(postgres)
    async with owner.database.engine.begin() as connection:
        await connection.exec_driver_sql(f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
        await connection.exec_driver_sql("GRANT SELECT ON asset_watermark_store TO reader")
    try:
        store = opened(changed(postgres, user="reader"))
        with pytest.raises(StoreError, match="permission denied") as caught:
            await store.load(KEY)
        assert type(caught.value) is DatabaseFailedError
    finally:
        async with owner.database.engine.begin() as connection:
            await connection.exec_driver_sql("DROP OWNED BY reader")
            await connection.exec_driver_sql("DROP ROLE reader")


@pytest.mark.parametrize("item", ["x" * 5_000_000, '"' * 3_000_000, "\\" * 3_000_000, b"x" * 4_000_000])
async def test_a_batch_beyond_mysqls_limit(
    mysql: str, mariadb_server: DatabaseServer, opened: OpenStore, item: str | bytes
) -> None:
    """A batch that the server would hang up on is refused with both sizes; one that fits is kept."""
    mariadb_server.execute("SET GLOBAL max_allowed_packet = 4194304")
    try:
        store = opened(mysql)
        watermark = await store.register(KEY, WATCHES)
        with pytest.raises(StoreError, match=r"max_allowed_packet") as caught:
            await store.commit(watermark, 1, [NewBatch(low=0, high=1, items=[item], count=1)], PollReport())
        assert type(caught.value) is StoreError
        assert await store.load(KEY) == watermark
        fits = item[: len(item) // 10 * 3]
        await store.commit(watermark, 1, [NewBatch(low=0, high=1, items=[fits], count=1)], PollReport())
        assert [batch.items for batch in await store.history(KEY)] == [[fits]]
    finally:
        mariadb_server.execute("SET GLOBAL max_allowed_packet = 16777216")


async def test_a_refused_row_is_not_shown(postgres: str, opened: OpenStore) -> None:
    """PostgreSQL tells the whole row that a constraint of an administrator's refused: a status must not."""
    store = opened(postgres)
    watermark = await store.register(KEY, WATCHES)
    async with store.database.engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE asset_watermark_batches ADD tenant text NOT NULL DEFAULT 'x'")
        await connection.exec_driver_sql("ALTER TABLE asset_watermark_batches ALTER tenant DROP DEFAULT")
    with pytest.raises(StoreError, match='null value in column "tenant"') as caught:
        await store.commit(watermark, 1, [NewBatch(low=0, high=1, items=["hunter2"], count=1)], PollReport())
    assert "hunter2" not in str(caught.value)
