"""What is particular to PostgreSQL: prepared transactions, standbys, xid8, cached sequences, rows from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_refusals import refusals
from harness import postgres_server
from tests.integration.sql_stage import Database, Watcher, answering, arguments_of, make_orders


@pytest.fixture
def database(watched_postgres: Database) -> Database:
    """A database with an empty table ``orders``."""
    make_orders(watched_postgres)
    return watched_postgres


@contextlib.contextmanager
def session(database: Database) -> Iterator[psycopg2.extensions.cursor]:
    """A session that says itself where its transactions begin and end."""
    connection = psycopg2.connect(database.url)
    connection.autocommit = True
    try:
        yield connection.cursor()
    finally:
        connection.close()


@contextlib.contextmanager
def prepared(database: Database, name: str) -> Iterator[None]:
    """A transaction that is prepared, with the row 1."""
    with session(database) as run:
        run.execute(f"BEGIN; INSERT INTO orders VALUES (1, localtimestamp, ''); PREPARE TRANSACTION '{name}'")
        try:
            yield
        finally:
            run.execute(f"COMMIT PREPARED '{name}'")


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_a_prepared_transaction_is_waited_for_also_after_a_restart(
    database: Database, cursor: list[str]
) -> None:
    """When it began is recorded nowhere: a process that has not seen it begin holds everything, and names it."""
    watcher = Watcher(lambda: database.source(cursor=cursor))
    with prepared(database, f"two-phase {database.url}"):
        database.execute("INSERT INTO orders VALUES (2, localtimestamp, '')")
        assert await watcher.poll() == []
        assert watcher.note is not None
        assert f"held back by the prepared transaction 'two-phase {database.url}' of incremental" in watcher.note
    await watcher.drain()
    assert watcher.ids == [1, 2]


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_what_was_seen_before_a_transaction_was_prepared_comes(database: Database, cursor: list[str]) -> None:
    """A process that saw the time before it holds only what came since."""
    source = database.source(cursor=cursor)
    watcher = Watcher(lambda: source, limit=1)
    database.execute("INSERT INTO orders VALUES (-2, localtimestamp, ''), (-1, localtimestamp, '')")
    await watcher.poll()
    source._edge = None  # the next poll looks again
    with prepared(database, f"late {database.url}"):
        database.execute("INSERT INTO orders VALUES (2, localtimestamp, '')")
        await watcher.drain()
        assert watcher.ids == [-2, -1]
    await watcher.drain()
    assert watcher.ids == [-2, -1, 1, 2]


async def test_38_a_number_that_was_taken_before_anything_was_written_is_waited_for(database: Database) -> None:
    """A transaction without a number of its own holds a value of the sequence, and writes it last."""
    database.execute("CREATE SEQUENCE numbers", "SELECT nextval('numbers')")
    source = database.source(cursor="id")
    watcher = Watcher(lambda: source)
    with session(database) as slow:
        slow.execute("BEGIN; SELECT nextval('numbers')")
        ((taken,),) = slow.fetchall()
        slow.execute("SELECT pg_current_xact_id_if_assigned()")
        assert slow.fetchall() == [(None,)]
        database.execute("INSERT INTO orders VALUES (nextval('numbers'), localtimestamp, '')")
        assert await watcher.poll() == []
        slow.execute(f"INSERT INTO orders VALUES ({taken}, localtimestamp, ''); COMMIT")
    await watcher.drain()
    assert watcher.ids == [taken, taken + 1]


async def test_a_standby_is_refused_until_it_is_the_primary() -> None:
    """A server that replays another's transactions does not know which are open there; xid8 is right there, too."""
    with postgres_server.restartable() as (server, service):
        watched = Database(server.url)
        make_orders(watched)
        watched.execute("ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()")
        watched.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '')")
        ((folder,),) = watched.execute("SHOW data_directory")
        service.stop()
        await asyncio.to_thread(Path(folder, "standby.signal").touch)
        service.start()
        source = watched.source()
        with pytest.raises(SourceError, match=r"this server is a standby.*Connect to the primary"):
            await source.poll(None, 10, frozenset())
        assert (await watched.source(cursor=["xid", "id"]).poll(None, 10, frozenset())).size == 1
        assert (await watched.source(visibility="none").poll(None, 10, frozenset())).size == 1
        watched.execute("SELECT pg_promote()")
        assert (await source.poll(None, 10, frozenset())).size == 1
        await watched.aclose()


async def test_xid8_is_exact_and_needs_no_privilege(database: Database) -> None:
    """Rows come as soon as no older transaction is open, by the snapshot of the poll itself; an update comes again."""
    database.execute(
        "ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()",
        "CREATE INDEX ON orders (xid, id)",
        "CREATE USER xid_reader PASSWORD 'x'",
        "GRANT SELECT ON orders TO xid_reader",
    )
    reader = PostgresReader(arguments=answering(arguments_of(database.url) | {"user": "xid_reader", "password": "x"}))
    source = database.source(reader=reader, cursor=["xid", "id"])
    watcher = Watcher(lambda: source)
    with session(database) as slow:
        slow.execute("BEGIN; INSERT INTO orders (id, updated_at) VALUES (1, localtimestamp)")
        database.execute("INSERT INTO orders (id, updated_at) VALUES (2, localtimestamp)")
        assert await watcher.poll() == []
        assert watcher.note is not None
        assert "held back by" in watcher.note
        slow.execute("COMMIT")
    await watcher.drain()
    assert (watcher.ids, watcher.note) == ([1, 2], None)
    database.execute("UPDATE orders SET xid = pg_current_xact_id() WHERE id = 1")
    await watcher.drain()
    assert watcher.ids == [1, 2, 1]
    await reader.aclose()
    database.execute("DROP OWNED BY xid_reader", "DROP USER xid_reader")


async def test_xid8_names_the_prepared_transaction_that_it_waits_for(database: Database) -> None:
    """By the name that COMMIT PREPARED takes: no session shows it."""
    database.execute("ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()")
    source = database.source(cursor=["xid", "id"])
    watcher = Watcher(lambda: source)
    with prepared(database, f"two-phase {database.url}"):
        database.execute("INSERT INTO orders VALUES (2, localtimestamp, '')")
        assert await watcher.poll() == []
        assert re.search(rf"transaction \d+, prepared as 'two-phase {database.url}' by incremental", watcher.note or "")


async def test_max_hold_without_effect_under_xid8_is_refused(database: Database) -> None:
    """A poll ends below the oldest transaction, however long that is open."""
    database.execute("ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()")
    with pytest.raises(SourceError, match=r"max_hold=600 cannot be used: column xid .* is xid8.*leave max_hold out"):
        await database.source(cursor=["xid", "id"], max_hold=600.0).poll(None, 10, frozenset())


async def test_a_number_of_a_transaction_that_is_still_to_come_is_refused(database: Database) -> None:
    """The table was moved to a server whose counter is behind: every new row would be below the watermark."""
    database.execute("ALTER TABLE orders ADD xid xid8 NOT NULL DEFAULT pg_current_xact_id()")
    source = database.source(cursor=["xid", "id"])
    for _ in range(2):
        with pytest.raises(SourceError, match=r"still to come.*airflow-incremental rewind"):
            await source.poll((2**60, 1), 10, frozenset())
    await source.poll((1, 1), 10, frozenset())


@pytest.mark.parametrize(
    ("column", "cached"),
    [
        ("bigserial", "ALTER SEQUENCE numbered_id_seq CACHE 20"),
        ("bigint GENERATED ALWAYS AS IDENTITY (CACHE 20)", "SELECT 1"),
        ("bigint DEFAULT nextval('shared')", "ALTER SEQUENCE shared CACHE 20"),
    ],
)
async def test_a_sequence_that_hands_out_numbers_ahead_is_refused(database: Database, column: str, cached: str) -> None:
    """Sessions keep numbers for later transactions, which no open transaction tells: refused, unless asked for."""
    database.execute(
        "CREATE SEQUENCE shared", f"CREATE TABLE numbered (id {column} PRIMARY KEY, at timestamptz NOT NULL)", cached
    )
    with pytest.raises(SourceError, match=r"hands out 20 numbers at once.*CACHE 1"):
        await database.source(table="numbered", cursor="id").poll(None, 10, frozenset())
    for arguments in ({"cursor": ["at", "id"]}, {"cursor": "id", "visibility": "none"}):
        await database.source(table="numbered", **arguments).poll(None, 10, frozenset())


async def test_rows_of_another_servers_transactions_are_refused(database: Database) -> None:
    """A foreign table, also as a partition, and a table that a subscription fills."""
    database.execute(
        "CREATE FOREIGN DATA WRAPPER elsewhere",
        "CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere",
        "CREATE TABLE parts (id int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE FOREIGN TABLE part PARTITION OF parts FOR VALUES FROM (1) TO (2) SERVER elsewhere",
    )
    for table in ("part", "parts"):
        selection = check_sql_arguments(table=table, cursor="id")
        shape = await database.reader().describe(selection)
        assert shape.blind is not None
        assert "another server" in shape.blind
        assert [each.about for each in refusals(selection, shape)] == ["uniqueness", "visibility"]
    with session(database) as run:
        run.execute("CREATE SUBSCRIPTION copied CONNECTION '' PUBLICATION p WITH (connect = false, slot_name = NONE)")
        run.execute("SET allow_system_table_mods = on")
        run.execute(
            "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) "
            "SELECT oid, 'orders'::regclass, 'r' FROM pg_subscription WHERE subname = 'copied'"
        )
        with pytest.raises(SourceError, match=r"logical replication.*visibility='none'"):
            await database.source().poll(None, 10, frozenset())
        run.execute("DROP SUBSCRIPTION copied")
