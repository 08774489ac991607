"""listen= on a real PostgreSQL: notifications wake the trigger, whatever happens to the session that hears them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_listen import PostgresNotifications
from airflow_provider_incremental.sources.sql_notify import notify_ddl
from airflow_provider_incremental.sources.sql_source import SqlSource
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.wiring.notifications import ConnectionNotifications
from tests.integration.sql_faults import behind_proxy
from tests.integration.sql_stage import Database, answering, arguments_of

KEY = WatermarkKey("orders")
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%(listen)' AND datname = :name"


@pytest.fixture
async def shop(watched_postgres: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database behind the Airflow connection ``shop``, whose table ``orders`` notifies the channel ``orders``."""
    use_as_shop(watched_postgres, monkeypatch)
    watched_postgres.execute(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, updated_at timestamptz NOT NULL DEFAULT now())"
    )
    notifying(watched_postgres, "orders", "orders")
    return watched_postgres


def use_as_shop(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", database.url.replace("postgresql://", "postgres://"))


def notifying(database: Database, table: str, channel: str) -> None:
    """Run the SQL that the command line prints, as a person does, in one piece."""
    with database.engine().begin() as connection, connection.connection.cursor() as cursor:
        cursor.execute(notify_ddl(table, channel))


def insert(database: Database) -> int:
    return database.execute("INSERT INTO orders DEFAULT VALUES RETURNING id")[0][0]


@asynccontextmanager
async def watching(database: Database, poll_interval: float = 3600.0, **settings: Any) -> AsyncIterator[MemoryStore]:
    """Run a feed over a source that listens; with this poll interval, only notifications bring rows in a test's time.

    The first poll is over when this begins.
    """
    store = MemoryStore()
    selection = check_sql_arguments(**{"table": "orders", "cursor": ["id"], **settings})
    source = SqlSource(
        reader=database.reader(),
        conn_id="shop",
        selection=selection,
        notifications=ConnectionNotifications(conn_id="shop", channel="orders"),
    )
    pace = {"poll_interval": poll_interval, "announce_interval": 0.1, "redeliver_after": 300.0}
    feed = Feed(
        key=KEY,
        store=store,
        source=source,
        settings=FeedSettings(start="earliest", limit=1000, confirm_after=None, **pace),
        clock=SystemClock(),
    )

    async def run() -> None:
        async for announcement in feed.announcements():
            await feed.confirm(announcement)

    running = asyncio.create_task(run())
    await holds(lambda: polled(store))
    try:
        yield store
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await source.aclose()


async def polled(store: MemoryStore) -> bool:
    watermark = await store.load(KEY)
    return watermark is not None and watermark.status.last_poll_at is not None


async def ids(store: MemoryStore) -> list[int]:
    batches = await store.history(KEY, limit=1000)
    return [item["id"] for batch in reversed(batches) for item in batch.items or ()]


async def holds(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.02)


async def arrive(store: MemoryStore, wanted: list[int]) -> None:
    """Wait until exactly these rows are in the batch log."""

    async def all_there() -> bool:
        return len(await ids(store)) >= len(wanted)

    await holds(all_there)
    assert await ids(store) == wanted


def heard_by(database: Database) -> Callable[[], Any]:
    """Return a condition: a session listens in the database."""
    name = database.url.rpartition("/")[2]

    async def listened() -> bool:
        return database.execute(SESSIONS, name=name)[0][0] == 1

    return listened


async def test_a_row_comes_at_once(shop: Database) -> None:
    """Nobody waits for the next poll: it would come in an hour."""
    async with watching(shop) as store:
        rows = [insert(shop)]
        await arrive(store, rows)
        rows.append(insert(shop))
        await arrive(store, rows)


async def test_a_row_that_has_to_settle_comes_when_it_has(shop: Database) -> None:
    """The poll that a notification wakes is too early for a stamp from just now; another one follows."""
    async with watching(shop, cursor=["updated_at", "id"], settle=1.0) as store:
        await arrive(store, [insert(shop)])


async def test_what_came_before_anybody_listened_is_not_forgotten(shop: Database) -> None:
    """A row between the first poll and the first listening: to begin to listen is news as well."""
    async with watching(shop) as store:
        await arrive(store, [insert(shop)])
    first = len(shop.execute("SELECT id FROM orders"))
    async with watching(shop) as store:  # nobody waits until it listens
        rows = [insert(shop)]
        await arrive(store, list(range(1, first + len(rows) + 1)))


async def test_polls_stay_the_safety_net(shop: Database) -> None:
    """Without the table's part nobody is notified: rows come with the polls."""
    shop.execute("DROP TRIGGER orders_notify ON orders")
    async with watching(shop, poll_interval=0.2) as store:
        await arrive(store, [insert(shop)])


async def test_a_session_that_breaks_is_opened_again(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset in the middle, with a row while nobody hears: it comes when the session is there again."""
    async with behind_proxy(shop) as (reached, proxy):
        use_as_shop(reached, monkeypatch)
        async with watching(shop) as store:  # the source itself reads past the proxy
            rows = [insert(shop)]
            await arrive(store, rows)
            await holds(heard_by(shop))
            await proxy.cut()
            rows.append(insert(shop))
            await proxy.mend()
            await arrive(store, rows)
            rows.append(insert(shop))
            await arrive(store, rows)


async def test_the_status_says_that_nobody_listens(shop: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the session cannot be opened polls go on, and their note tells why only they do."""
    broken = shop.url.replace("postgresql://", "postgres://").replace("/" + shop.url.rpartition("/")[2], "/gone")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", broken)
    async with watching(shop, poll_interval=0.2) as store:

        async def told() -> bool:
            watermark = await store.load(KEY)
            return watermark is not None and "not listening, polls go on" in (watermark.status.note or "")

        await holds(told)
        await arrive(store, [insert(shop)])


async def test_a_network_that_swallows_everything_is_noticed(shop: Database) -> None:
    """Nothing closes the connection; the question whether the session still listens has no answer."""
    async with behind_proxy(shop) as (reached, proxy):
        session = PostgresNotifications(arguments=answering(arguments_of(reached.url)), keepalive=0.2, timeout=3)
        subscription = session.subscribe("orders")
        await subscription.news()  # it listens
        proxy.hang()

        async def noticed() -> bool:
            return session.trouble is not None

        await holds(noticed)
        await proxy.mend()
        await subscription.news()
        await session.aclose()


class Pooled(PostgresNotifications):
    """What a pooler that lends sessions by transaction makes of LISTEN: the next statement runs in another session."""

    async def _follow(self, connection: Any, listening: set[str]) -> None:
        await super()._follow(connection, listening)
        await connection.execute("UNLISTEN *")


async def test_a_pooler_that_cannot_listen_is_told(shop: Database) -> None:
    """Instead of believing for ever that nothing happens."""
    session = Pooled(arguments=answering(arguments_of(shop.url)))
    session.subscribe("orders")

    async def told() -> bool:
        return session.trouble is not None and "lends its sessions by transaction" in session.trouble

    await holds(told)
    await session.aclose()


async def test_all_watchers_of_a_connection_share_a_session(shop: Database) -> None:
    """Each hears its own channel; the last one that goes closes the session."""
    ears = [ConnectionNotifications(conn_id="shop", channel=channel) for channel in ("orders", "returns", "orders")]
    for ear in ears:
        await ear.news()  # to begin to listen is news
    name = shop.url.rpartition("/")[2]
    assert shop.execute(SESSIONS, name=name) == [(1,)]
    waiting = [asyncio.ensure_future(ear.news()) for ear in ears]
    shop.execute("NOTIFY orders")
    await asyncio.wait([waiting[0], waiting[2]], timeout=60)
    assert [each.done() for each in waiting] == [True, False, True]
    waiting[1].cancel()
    for ear in ears[:-1]:
        await ear.aclose()
    assert shop.execute(SESSIONS, name=name) == [(1,)]
    await ears[-1].aclose()

    async def closed() -> bool:
        return shop.execute(SESSIONS, name=name) == [(0,)]

    await holds(closed)


async def test_only_postgresql_notifies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other connection is refused at the first poll, and polls without listen= would do."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "mysql://shop@localhost/shop")
    with pytest.raises(SourceError, match="only PostgreSQL notifies; leave listen out"):
        await ConnectionNotifications(conn_id="shop", channel="orders").open()


@pytest.mark.parametrize("name", ["orders", "Orders", 'a"b; DROP TABLE t --', "select", "x" * 63, "Ünï 100%d"])
@pytest.mark.parametrize("channel", ["orders", "it's", 'a"b', "back\\slash", "$$ $n$", "x" * 63])
async def test_the_tables_part_works_for_any_names(watched_postgres: Database, name: str, channel: str) -> None:
    """Names are quoted, the channel is a literal; the SQL may be run again; each kind of statement notifies."""
    quoted = '"' + name.replace('"', '""') + '"'
    watched_postgres.execute("CREATE SCHEMA IF NOT EXISTS odd", f"CREATE TABLE odd.{quoted} (id int PRIMARY KEY)")
    notifying(watched_postgres, f"odd.{name}", channel)
    notifying(watched_postgres, f"odd.{name}", channel)
    session = PostgresNotifications(arguments=answering(arguments_of(watched_postgres.url)))
    subscription = session.subscribe(channel)
    await subscription.news()
    for statement in ("INSERT INTO {} VALUES (1), (2)", "UPDATE {} SET id = id + 5", "DELETE FROM {}", "TRUNCATE {}"):
        watched_postgres.execute(statement.format(f"odd.{quoted}"))
        async with asyncio.timeout(60):
            await subscription.news()
    await session.aclose()


def test_tables_whose_long_names_begin_alike_notify_for_themselves(watched_postgres: Database) -> None:
    """PostgreSQL cuts a name that is too long: what is made for one table does not replace what another one has."""
    names = ["n" * 60 + end for end in ("one", "two")]
    for name in names:
        watched_postgres.execute(f"CREATE TABLE {name} (id int)")
        notifying(watched_postgres, name, f"channel_{name[-3:]}")
    found = watched_postgres.execute("SELECT prosrc FROM pg_proc WHERE proname LIKE 'nnn%notify' ORDER BY prosrc")
    assert [text.split("'")[1] for (text,) in found] == ["channel_one", "channel_two"]
