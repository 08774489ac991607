"""The SQL source on PostgreSQL beside sessions, roles and relations of unusual kinds."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from urllib.parse import urlsplit

import psycopg2
import pytest

from airflow_provider_incremental.core.errors import SourceError
from tests.integration.sql_stage import Database, Watcher

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp NOT NULL DEFAULT localtimestamp)"
MESSAGE = "BEGIN; INSERT INTO orders (note) VALUES ('message'); COMMIT;" * 50_000


@pytest.fixture
def database(watched_postgres: Database) -> Database:
    """An empty database."""
    return watched_postgres


def psycopg(database: Database, **options: str) -> psycopg2.extensions.cursor:
    """A session that sends each text as one message, and begins no transaction by itself."""
    connection = psycopg2.connect(database.url, **options)
    connection.autocommit = True
    return connection.cursor()


async def test_one_message_with_many_transactions_is_one_moment(database: Database) -> None:
    """All of them are stamped with the start of the message, also those that begin while others' rows are read."""
    database.execute(
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text, "
        "updated_at timestamp NOT NULL DEFAULT localtimestamp)"
    )
    source = database.source(settle=0.2)
    watcher = Watcher(lambda: source, limit=10**6)
    await watcher.poll()
    sender = threading.Thread(target=psycopg(database).execute, args=(MESSAGE,))
    sender.start()
    other = psycopg(database)
    while sender.is_alive():
        await watcher.poll()
        other.execute("INSERT INTO orders (note) VALUES ('other')")
    async with asyncio.timeout(60):
        while len(watcher.ids) < database.execute("SELECT count(*) FROM orders")[0][0]:
            await watcher.poll()
            assert not (await asyncio.to_thread(lost, database, watcher)), "lost"
    assert len(set(watcher.ids)) == len(watcher.ids)


def lost(database: Database, watcher: Watcher) -> list[int]:
    """Rows below the last one that was delivered, and not among those."""
    if not watcher.ids:
        return []
    last = f"(SELECT updated_at, id FROM orders WHERE id = {watcher.ids[-1]})"
    rows = database.execute(f"SELECT id FROM orders WHERE (updated_at, id) <= {last}")
    return sorted({row[0] for row in rows} - set(watcher.ids))


async def test_a_session_that_hides_its_transactions_holds_rows_back(database: Database) -> None:
    """With track_activities off nobody sees when they began: the note says whose session it is."""
    database.execute(ORDERS)
    source = database.source(settle=0.05)
    watcher = Watcher(lambda: source)
    await watcher.poll()
    hidden = psycopg(database)
    hidden.execute("SET track_activities = off")
    hidden.execute("BEGIN")
    hidden.execute("INSERT INTO orders VALUES (1)")
    await asyncio.sleep(0.1)
    psycopg(database).execute("INSERT INTO orders VALUES (2)")
    await asyncio.sleep(0.1)
    assert await watcher.poll() == []
    assert "whose track_activities is off" in str(watcher.note)
    hidden.execute("COMMIT")
    hidden.connection.close()
    async with asyncio.timeout(30):
        while len(watcher.ids) < 2:
            await watcher.poll()
    assert watcher.ids == [1, 2]


@pytest.mark.parametrize("column", ["numrange", "nummultirange", "prices", "prices[]", "numeric[]"])
async def test_a_table_with_a_type_that_is_made_of_numerics_is_read(database: Database, column: str) -> None:
    """What is read from text by itself is none where it is a part."""
    database.execute(
        "CREATE TYPE prices AS (price numeric)", ORDERS, f"ALTER TABLE orders ADD more {column}, ADD n numeric"
    )
    database.execute("INSERT INTO orders (id, n) VALUES (1, 1.50)")
    watcher = Watcher(lambda: database.source(settle=0.0))
    await watcher.drain()
    assert [(row["id"], repr(row["n"]), row["more"]) for row in watcher.items] == [(1, repr(Decimal("1.50")), None)]


async def test_a_zone_of_the_watching_user_alone_is_refused(database: Database) -> None:
    """Rows are stamped in the zone of who writes them; with timezone= it is known."""
    database.execute(
        ORDERS,
        "CREATE ROLE far LOGIN PASSWORD 'x'",
        "GRANT SELECT ON orders TO far",
        "GRANT pg_read_all_stats TO far",
        "ALTER ROLE far SET timezone = 'Asia/Tokyo'",
    )
    place = urlsplit(database.url)
    far = Database(f"postgresql://far:x@{place.hostname}:{place.port}{place.path}")
    try:
        with pytest.raises(SourceError, match=r"updated_at has no zone.*Asia/Tokyo, set for the user.*timezone="):
            await far.source().poll(None, 10, frozenset())
        assert not (await far.source(timezone="UTC").poll(None, 10, frozenset())).items
    finally:
        await far.aclose()
        database.execute("DROP OWNED BY far", "DROP ROLE far")


async def test_a_materialized_view_is_refused(database: Database) -> None:
    """A refresh brings rows that were committed long before; without a look at transactions it can be read."""
    database.execute(ORDERS.replace("orders", "base"), "CREATE MATERIALIZED VIEW orders AS SELECT * FROM base")
    with pytest.raises(SourceError, match="it is a materialized view"):
        await database.source(unique=True).poll(None, 10, frozenset())
    assert not (await database.source(unique=True, visibility="none").poll(None, 10, frozenset())).items


async def test_a_name_with_a_percent_sign_is_found_in_the_catalogue(database: Database) -> None:
    """Its key counts, as that of any other table."""
    database.execute(ORDERS.replace("orders", '"a%b"'), "INSERT INTO \"a%b\" (id, updated_at) VALUES (1, '2026-01-31')")
    watcher = Watcher(lambda: database.source(table="a%b"))
    await watcher.drain()
    assert watcher.ids == [1]
