"""When a source that listens wakes: at once, and again when what it was told of may have become readable."""

from __future__ import annotations

import asyncio

import pytest

from airflow_provider_incremental import SQLIncrementalQueryTrigger
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_source import Notifications, SqlSource
from airflow_provider_incremental.testing.fakes import FakeClock


class Bell(Notifications):
    """Notifications that the test makes."""

    trouble = None

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def open(self) -> None:
        pass

    async def news(self) -> None:
        await self.rung.wait()
        self.rung.clear()

    async def aclose(self) -> None:
        pass


class Listener:
    """Waits for a source's news as a feed does, and notes when there were any."""

    def __init__(self, settle: float) -> None:
        self.clock, self.bell, self.woken = FakeClock(), Bell(), []
        selection = check_sql_arguments(table="orders", cursor="id", settle=settle)
        self.source = SqlSource(
            reader=SqlReader, conn_id="shop", selection=selection, notifications=self.bell, clock=self.clock
        )
        self.task = asyncio.create_task(self.listen())

    async def listen(self) -> None:
        while True:
            await self.source.changed()
            self.woken.append(round(self.clock.monotonic(), 2))

    async def live(self, seconds: float) -> None:
        """Let time pass, a twentieth of a second at a time."""
        for _ in range(round(seconds * 20)):
            for _ in range(10):
                await asyncio.sleep(0)
            self.clock.advance(0.05)


async def test_news_wakes_at_once_and_then_ever_later() -> None:
    """After the settle time the row's stamp is old enough; for what other transactions hold back, up to a minute."""
    listener = Listener(settle=1.0)
    await listener.live(10)
    assert listener.woken == []
    listener.bell.rung.set()
    await listener.live(300)
    assert listener.woken == [10, 11.05, 12.1, 14.2, 18.4, 26.8, pytest.approx(43.6, abs=0.1)]
    listener.task.cancel()


async def test_further_news_begins_anew() -> None:
    """Each notification wakes at once, and what was still to come of the one before is part of its own."""
    listener = Listener(settle=0.0)
    listener.bell.rung.set()
    await listener.live(0.5)
    listener.bell.rung.set()
    await listener.live(1.1)
    assert listener.woken == [0, 0.3, 0.5, 0.8, 1.05, 1.55]
    listener.task.cancel()


def test_a_source_that_does_not_listen_has_no_news() -> None:
    """Only polls tell."""
    selection = check_sql_arguments(table="orders", cursor="id")
    assert SqlSource(reader=SqlReader, conn_id="shop", selection=selection).changed() is None


@pytest.mark.parametrize("channel", ["", "x" * 64, "é" * 32, "a\x00b", 7, ["orders"]])
def test_a_channel_that_postgresql_would_not_take_is_refused_in_the_dag_file(channel: object) -> None:
    """With the parameter, its value and what to give."""
    with pytest.raises(ConfigurationError, match=r"listen=.* give a text of 1 to 63 bytes"):
        SQLIncrementalQueryTrigger(asset_name="orders", conn_id="shop", table="orders", cursor="id", listen=channel)


def test_events_may_follow_each_other_closely_where_rows_come_at_once() -> None:
    """The distance of two events is the poll interval's, but 2 seconds where the trigger listens."""
    given = {"asset_name": "orders", "conn_id": "shop", "table": "orders", "cursor": "id"}
    assert SQLIncrementalQueryTrigger(**given).announce_interval == 30
    assert SQLIncrementalQueryTrigger(**given, listen="orders").announce_interval == 2
    assert SQLIncrementalQueryTrigger(**given, listen="orders", poll_interval=1).announce_interval == 1
    assert SQLIncrementalQueryTrigger(**given, listen="orders", announce_interval=9).announce_interval == 9


def test_a_trigger_that_listens_is_the_same_after_airflow_has_stored_it() -> None:
    """The channel is kept; what follows from it is not."""
    trigger = SQLIncrementalQueryTrigger(
        asset_name="orders", conn_id="shop", table="orders", cursor="id", listen="orders"
    )
    _, stored = trigger.serialize()
    assert stored["listen"] == "orders"
    assert "announce_interval" not in stored
    again = SQLIncrementalQueryTrigger(**stored)
    assert again.serialize() == trigger.serialize()
    assert again.announce_interval == 2


def test_the_command_prints_the_tables_part(capsys: pytest.CaptureFixture[str]) -> None:
    """Ready to be run, without a connection."""
    assert main(["notify", "public.orders", "orders"]) == 0
    out = capsys.readouterr().out
    assert "PERFORM pg_catalog.pg_notify('orders', '');" in out
    assert "AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON public.orders" in out
    assert main(["notify", "public.orders", "x" * 64]) == 1
