"""An Airflow connection that is changed or deleted while a trigger reads its database, which goes on answering."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.testing import FakeClock
from airflow_provider_incremental.wiring.connection_watch import AGAIN, SharedWatches
from airflow_provider_incremental.wiring.connections import ConnectionReader
from harness import servers
from tests.integration.sql_stage import Database, Watcher, make_orders, order


class Shop:
    """A connection that leads to one of two databases, and a source that reads there."""

    def __init__(self, patch: pytest.MonkeyPatch, urls: Sequence[str]) -> None:
        self.patch = patch
        self.clock = FakeClock()
        self.databases = [Database(url) for url in urls]
        for database in self.databases:
            make_orders(database)
        self.leads_to(self.databases[0])
        self.reader = ConnectionReader(conn_id="shop", watches=SharedWatches(clock=self.clock))
        source = self.databases[0].source(reader=self.reader)
        self.watcher = Watcher(lambda: source)

    def leads_to(self, database: Database) -> None:
        """Change the connection."""
        self.patch.setenv("AIRFLOW_CONN_SHOP", database.url.replace("postgresql", "postgres", 1))

    async def ids(self) -> list[int]:
        """Return what has come by now, over polls that fail once."""
        with contextlib.suppress(ConnectionError):
            await self.watcher.drain()
        await self.watcher.drain()
        return self.watcher.ids


@pytest.fixture
async def shop(monkeypatch: pytest.MonkeyPatch, postgres_server: servers.DatabaseServer) -> AsyncIterator[Shop]:
    """Two databases, of which the first one is watched."""
    urls = [postgres_server.create_database() for _ in range(2)]
    shop = Shop(monkeypatch, urls)
    yield shop
    await shop.reader.aclose()
    for database in shop.databases:
        await database.aclose()
    for url in urls:
        postgres_server.drop_database(url)


async def test_a_connection_that_leads_elsewhere_is_read_there(shop: Shop) -> None:
    """Within a minute, without a restart; what is open at the old place is closed."""
    one, two = shop.databases
    one.insert("orders", [order(1)])
    two.insert("orders", [order(2)])
    assert await shop.ids() == [1]
    shop.leads_to(two)
    assert await shop.ids() == [1]
    shop.clock.advance(AGAIN)
    assert await shop.ids() == [1, 2]
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND application_name LIKE 'airflow%'"
    assert one.execute(sessions, name=one.url.rpartition("/")[2]) == [(0,)]


async def test_nothing_is_fetched_from_another_place_before_it_is_described(shop: Shop) -> None:
    """The poll that finds out fails once: keys, zones and open transactions of the old place hold no more."""
    await shop.ids()
    shop.leads_to(shop.databases[1])
    shop.clock.advance(AGAIN)
    with pytest.raises(ConnectionError, match="'shop' leads elsewhere"):
        await shop.watcher.poll()
    assert await shop.watcher.drain() == []


async def test_a_login_that_changes_fails_no_poll(shop: Shop) -> None:
    """The place is the same, and what is known of it holds; sessions log in with the new one."""
    one = shop.databases[0]
    await shop.ids()
    there = sa.engine.make_url(one.url).set(drivername="postgres", username="another", password="new")
    one.execute("DROP ROLE IF EXISTS another", "CREATE ROLE another LOGIN SUPERUSER PASSWORD 'new'")
    shop.patch.setenv("AIRFLOW_CONN_SHOP", there.render_as_string(hide_password=False))
    shop.clock.advance(AGAIN)
    one.insert("orders", [order(1)])
    await shop.watcher.drain()
    assert shop.watcher.ids == [1]
    users = "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name = 'airflow-provider-incremental'"
    assert one.execute(f"{users} AND datname = current_database()") == [("another",)]
    one.execute("DROP ROLE another")


async def test_a_deleted_connection_is_told_while_its_database_answers(shop: Shop) -> None:
    """The watermark stays, and the rows come when the connection is there again."""
    one = shop.databases[0]
    one.insert("orders", [order(1)])
    assert await shop.ids() == [1]
    before = shop.watcher.watermark
    shop.patch.delenv("AIRFLOW_CONN_SHOP")
    one.insert("orders", [order(2)])
    shop.clock.advance(AGAIN)
    assert await shop.ids() == [1, 2]  # not believed at once
    one.insert("orders", [order(3)])
    before = shop.watcher.watermark
    shop.clock.advance(AGAIN)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="there is no connection 'shop'"):
            await shop.watcher.poll()
    assert shop.watcher.watermark == before
    shop.leads_to(one)
    assert await shop.ids() == [1, 2, 3]
