"""The SQL source on PostgreSQL: clocks, wall clocks and the edge of a poll."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterator

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import loads
from tests.integration.sql_stage import Database, Watcher, make_orders


@pytest.fixture
def database(watched_postgres: Database) -> Database:
    """An empty database."""
    return watched_postgres


NOON = dt.datetime.fromisoformat("2026-01-31 12:00")


@pytest.fixture
def process_zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this process live in another time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def in_zone(database: Database, zone: str) -> None:
    name = database.url.rpartition("/")[2]
    database.execute(f"ALTER DATABASE {name} SET timezone = '{zone}'")


@pytest.mark.parametrize("process_zone", ["UTC", "Asia/Kolkata", "America/New_York"], indirect=True)
@pytest.mark.usefixtures("process_zone")
async def test_40_a_naive_column_is_bounded_by_the_databases_own_wall_clock(database: Database) -> None:
    """Local time of UTC+5:30 in a column without zone: found at once, whatever the zone of this process."""
    in_zone(database, "Asia/Kolkata")
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, localtimestamp - interval '2 seconds', '')")
    database.execute("INSERT INTO orders VALUES (2, localtimestamp + interval '20 seconds', '')")
    watcher = Watcher(database.source)
    await watcher.drain()
    assert watcher.ids == [1]
    assert watcher.note is None


async def test_40_a_naive_column_of_another_zone_is_noted_and_mended_with_timezone(database: Database) -> None:
    """Rows hours ahead of the database's clock wait and are noted; with timezone= they come at once."""
    in_zone(database, "UTC")
    make_orders(database)
    database.execute("INSERT INTO orders VALUES (1, timezone('Asia/Kolkata', now()) - interval '2 seconds', '')")
    watcher = Watcher(database.source)
    assert await watcher.poll() == []
    assert watcher.note is not None
    assert "held back: the last row's updated_at is 20" in watcher.note
    mended = Watcher(lambda: database.source(timezone="Asia/Kolkata"))
    await mended.drain()
    assert mended.ids == [1]
    assert mended.note is None


async def test_a_timezone_for_a_column_with_zone_is_refused(database: Database) -> None:
    """An instant needs no zone: the argument would be a mistake."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
    with pytest.raises(SourceError, match=r"timezone='Asia/Kolkata' says which wall clock updated_at holds"):
        await database.source(timezone="Asia/Kolkata").poll(None, 10, frozenset())


@pytest.mark.parametrize("process_zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("process_zone")
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
async def test_43_a_naive_cursor_is_the_columns_value_bit_for_bit(database: Database, zone: str) -> None:
    """Times that this process's zone skips or has twice are positions like any other, between restarts too."""
    in_zone(database, zone)
    make_orders(database)
    times = ["2025-03-30 02:30:00.000001", "2025-10-26 02:30:00", "2025-10-26 02:30:00.999999", "2025-10-26 03:00:00"]
    for number, at in enumerate(times):
        database.execute(f"INSERT INTO orders VALUES ({number}, '{at}', '')")
    watcher = Watcher(database.source, limit=1)
    for number, at in enumerate(times):
        await watcher.poll()
        assert loads(watcher.watermark) == (dt.datetime.fromisoformat(at), number)
    assert watcher.ids == [0, 1, 2, 3]


@pytest.mark.parametrize("process_zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.usefixtures("process_zone")
async def test_43_an_instant_is_the_same_in_every_session(database: Database) -> None:
    """The hour that a zone has twice is in order of the instants, and the database's zone may change meanwhile."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamptz NOT NULL)")
    database.execute("INSERT INTO orders VALUES (2, '2025-10-26 00:30Z'), (1, '2025-10-26 01:15Z')")
    watcher = Watcher(database.source, limit=1)
    await watcher.poll()
    in_zone(database, "Asia/Kolkata")
    await watcher.drain()
    assert watcher.ids == [2, 1]
    assert loads(watcher.watermark) == (dt.datetime(2025, 10, 26, 1, 15, tzinfo=dt.UTC), 1)


async def test_the_edge_lets_a_coarse_column_finish_its_second(database: Database) -> None:
    """In a column of whole seconds a row waits until no other one can get its stamp, even with settle=0."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, updated_at timestamp(0) NOT NULL)")
    ((at,),) = database.execute("SELECT CAST(date_trunc('second', localtimestamp) + interval '1 second' AS text)")
    database.execute("INSERT INTO orders VALUES (2, :at)", at=at)
    watcher = Watcher(database.source)
    async with asyncio.timeout(30):
        while not await watcher.poll():
            await asyncio.sleep(0.02)
    ((over,),) = database.execute("SELECT localtimestamp > CAST(:at AS timestamp) + interval '1 second'", at=at)
    assert over


async def test_a_start_in_the_wrong_zone_form_is_refused(database: Database) -> None:
    """A time for a column with zone has to name its zone, and one for a column without may not."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, a timestamp NOT NULL, b timestamptz NOT NULL)")
    with pytest.raises(SourceError, match="the column has no zone"):
        await database.source(cursor=["a", "id"]).at("2026-01-31T12:00:00Z")
    with pytest.raises(SourceError, match="say which one is meant"):
        await database.source(cursor=["b", "id"]).at("2026-01-31T12:00:00")
    assert (await database.source(cursor=["b", "id"]).at("2026-01-31T12:00:00Z")).cursor == (
        NOON.replace(tzinfo=dt.UTC),
    )


async def test_a_column_that_gets_a_zone_is_refused_by_a_source_that_is_polling(database: Database) -> None:
    """The type changes between two polls of one source: no cast with anybody's zone, but an error and the remedy."""
    make_orders(database)
    database.execute(f"INSERT INTO orders VALUES (1, '{NOON}', '')")
    source = database.source()
    watcher = Watcher(lambda: source)
    await watcher.drain()
    database.execute("ALTER TABLE orders ALTER COLUMN updated_at TYPE timestamptz")
    database.execute(f"INSERT INTO orders VALUES (2, '{NOON + dt.timedelta(days=1)}Z', '')")
    with pytest.raises(SourceError, match="The column's type has just changed"):
        await watcher.poll()
    with pytest.raises(SourceError, match=r"is a timestamp with zone, and the value .* of the watermark"):
        await watcher.poll()
    assert loads(watcher.watermark) == (NOON, 1)
