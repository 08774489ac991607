"""Rows that commit late are waited for, on PostgreSQL and on MariaDB: what holds a poll back, and how that is told."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from tests.integration.sql_stage import Database, Watcher, make_orders


@pytest.fixture(params=["postgresql", "mariadb"])
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database of each kind with an empty table ``orders``."""
    made = Database(request.getfixturevalue("postgres_database" if request.param == "postgresql" else "mysql_database"))
    make_orders(made)
    yield made
    await made.aclose()


class ActingClock:
    """A clock whose sleep is an occasion: time passes as fast as it is slept."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.act = act
        self.slept = 0.0

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        return self.slept

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.act()
        await asyncio.sleep(0.2)  # longer than MariaDB gives a list of transactions again


def now(database: Database) -> str:
    return "localtimestamp" if database.kind == "postgresql" else "NOW(6)"


def insert(database: Database, number: int) -> None:
    database.execute(f"INSERT INTO orders VALUES ({number}, {now(database)}, '')")


async def drained(watcher: Watcher, count: int) -> list[int]:
    """Poll until so many rows have come."""
    async with asyncio.timeout(60):
        while len(watcher.ids) < count:
            await watcher.drain()
            await asyncio.sleep(0.05)
    return watcher.ids


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_a_row_that_commits_late_is_found(database: Database, cursor: list[str]) -> None:
    """Its transaction is open while a later row commits: both come, in order, when it has ended."""
    watcher = Watcher(lambda: database.source(cursor=cursor))
    with database.engine().connect() as slow:
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, 'late')"))
        insert(database, 2)
        await asyncio.sleep(1.1)
        assert await watcher.poll() == []
        assert watcher.note is not None
        assert "held back by the transaction of incremental" in watcher.note
        slow.commit()
    assert await drained(watcher, 2) == [1, 2]
    assert watcher.note is None


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_a_transaction_that_is_rolled_back_holds_no_longer(database: Database, cursor: list[str]) -> None:
    """Nor does one that has only read."""
    source = database.source(cursor=cursor)
    watcher = Watcher(lambda: source)
    with database.engine().connect() as reading, database.engine().connect() as slow:
        reading.execute(sa.text("SELECT * FROM orders"))
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, 'never')"))
        insert(database, 2)
        assert await watcher.poll() == []
        slow.rollback()
        assert await watcher.poll() == []
        reading.rollback()
    assert await drained(watcher, 1) == [2]


async def test_38_a_short_transaction_costs_no_poll(database: Database) -> None:
    """It ends while the poll waits, as long as ``settle``: the rows come with the same poll."""
    source = database.source(cursor="id", settle=30.0)
    watcher = Watcher(lambda: source)
    with database.engine().connect() as slow:
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, '')"))
        insert(database, 2)
        source._clock = ActingClock(slow.commit)
        await watcher.poll()
    assert watcher.ids == [1, 2]


async def test_38_a_long_transaction_is_not_waited_for_within_a_poll(database: Database) -> None:
    """Who is open for longer than ``settle`` is waited for by the next poll."""
    clock = ActingClock()
    with database.engine().connect() as slow:
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, '')"))
        insert(database, 2)
        await asyncio.sleep(2.1)
        source = database.source(cursor="id", settle=1.0)
        source._clock = clock
        assert (await source.poll(None, 10, frozenset())).size == 0
    assert clock.slept < 1.0  # a list that MariaDB had kept is asked for again


async def test_38_the_start_at_the_latest_waits_for_what_is_open(database: Database) -> None:
    """A row that commits after the start is new, with a number from before it, too."""
    source = database.source(cursor="id")
    with database.engine().connect() as slow:
        slow.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, '')"))
        insert(database, 2)
        with pytest.raises(SourceError, match="the start at the latest row is held back by the transaction"):
            await source.latest()
        slow.commit()
    assert (await source.latest()).cursor == (2,)


@pytest.mark.parametrize("cursor", [["updated_at", "id"], ["id"]], ids=",".join)
async def test_38_max_hold_goes_on_and_counts_the_risk(
    database: Database, cursor: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A forgotten transaction is passed, told as a risk, and logged once; what it adds is missed, as documented."""
    source = database.source(cursor=cursor, max_hold=1.0)
    watcher = Watcher(lambda: source)
    with database.engine().connect() as forgotten:
        forgotten.execute(sa.text(f"INSERT INTO orders VALUES (1, {now(database)}, '')"))
        insert(database, 2)
        await asyncio.sleep(2.1)
        assert await drained(watcher, 1) == [2]
        insert(database, 3)
        assert await drained(watcher, 2) == [2, 3]
        assert watcher.note is not None
        assert "not waiting for the transaction of incremental" in watcher.note
        assert "risks taken by max_hold so far: 1" in watcher.note
        forgotten.commit()
    insert(database, 4)
    assert await drained(watcher, 3) == [2, 3, 4]
    database.execute("ALTER TABLE orders ADD more int")
    for serves in (9, 9, 0):  # idle, and looked at anew
        source._plan_serves = serves
        await watcher.poll()
        assert watcher.note == "risks taken by max_hold so far: 1"
    assert caplog.text.count("open for longer than max_hold=1 s: a row of it may be missed") == 1


async def test_polls_of_other_watchers_hold_nobody(database: Database) -> None:
    """Many sources read one database at once: none waits for the others' reading."""
    for number in range(5):
        insert(database, number)
    sources = [database.source(reader=database.reader(), cursor="id", settle=10.0) for _ in range(5)]
    for _ in range(3):
        found = await asyncio.gather(*(source.poll(None, 10, frozenset()) for source in sources))
        assert [each.size for each in found] == [5] * 5


async def test_where_nobody_shows_transactions_committed_is_refused(watched: Database) -> None:
    """Asked for on a database that does not tell, it is refused; left out, it is not used there."""
    if watched.kind != "sqlite":
        return
    make_orders(watched)
    with pytest.raises(SourceError, match=r"visibility='committed' cannot be used.*lateness"):
        await watched.source(visibility="committed").poll(None, 10, frozenset())
    assert (await watched.source().poll(None, 10, frozenset())).size == 0
