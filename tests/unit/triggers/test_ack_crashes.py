"""In ack mode, whatever ends a process or a stream: no batch is lost, and each is announced twice at most."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any

import pytest
from airflow.triggers.shared_stream import AckTimeout, _SubscriberOverflow

from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import ListSource
from tests.unit.triggers.airflow_runner import Triggerer, triggerer
from tests.unit.triggers.list_trigger import KEY, ListTrigger


class World:
    """What outlives every process: the source, the store, and the events in Airflow's database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ListTrigger.source = ListSource()
        ListTrigger.source.add(1.0, "a")
        self.store = MemoryStore()
        self.stored: list[Any] = []
        self._monkeypatch = monkeypatch

    def triggerer(self, **options: Any) -> AbstractContextManager[Triggerer]:
        """Start a process; in the end it is killed."""
        return triggerer(self._monkeypatch, self.store, self.stored, **options)

    def due(self, redeliver_after: float = 3600) -> list[int]:
        """The batches that are still to be announced."""
        return [batch.seq for batch in asyncio.run(self.store.due(KEY, redeliver_after))]

    def logged(self) -> list[int]:
        """The batches of the log."""
        return [batch.seq for batch in asyncio.run(self.store.history(KEY))]

    def announced(self) -> Counter[int]:
        """How often each batch is in the events that Airflow has stored."""
        return Counter(batch["seq"] for payload in self.stored for batch in payload["batches"])

    def is_confirmed(self) -> bool:
        """Whether there are batches, and none of them is to be announced."""
        return bool(self.logged()) and not self.due()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A source with one item, an empty store, no events."""
    return World(monkeypatch)


def test_killed_between_any_two_steps_from_commit_to_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restart the batch is there, announced once, or twice when Airflow had stored the event already."""
    world = World(monkeypatch)
    with world.triggerer() as process:
        committed = process.run_until(lambda: bool(world.logged()))
        confirmed = committed + process.run_until(world.is_confirmed)
    times = set()
    for rounds in range(confirmed + 2):
        world = World(monkeypatch)
        with world.triggerer() as process:
            for _ in range(rounds):
                process.turn()
        before = world.announced()[1]
        with world.triggerer() as process:
            process.run_until(world.is_confirmed)
        assert world.logged() == [1]
        times.add((before, world.announced()[1]))
    # Killed before the event was stored, between that and the confirmation, and after it: each was met, and no other.
    assert times == {(0, 1), (1, 2), (1, 1)}


def test_a_stream_that_is_started_again_announces_what_is_in_flight_once_more(world: World) -> None:
    """Airflow has stored the event, and has not said so yet, when the group fails: one repetition."""
    with world.triggerer() as process:
        process.run_until(lambda: bool(world.stored))
        (group,) = process.manager._groups.values()
        group._fail_group(RuntimeError("the poll failed"))
        process.run_until(world.is_confirmed)
    assert isinstance(process.error, RuntimeError)
    assert world.announced() == {1: 2}


def test_the_ack_timeout_leads_to_another_announcement(world: World) -> None:
    """Airflow gives up an event that it cannot store; when it can again, the batch comes by a new stream."""
    with world.triggerer(ack_timeout=0.02) as process:
        process.confirms = False
        process.run_until(lambda: isinstance(process.error, AckTimeout))
        assert world.due() == [1]
        assert world.stored == []
        process.confirms = True
        process.run_until(world.is_confirmed)
    assert set(world.announced()) == {1}


def test_a_full_queue_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that stands still makes Airflow fail the trigger; everything is announced when it goes on."""
    stands_still = True
    original = ListTrigger.filter_shared_stream

    async def slow_filter(self: ListTrigger, shared_stream: Any) -> Any:
        while stands_still:
            await asyncio.sleep(0)
        async for event in original(self, shared_stream):
            yield event

    monkeypatch.setattr(ListTrigger, "filter_shared_stream", slow_filter)
    with world.triggerer(max_subscriber_queue=1) as process:
        process.run_until(lambda: bool(world.logged()))
        (group,) = process.manager._groups.values()
        while not group._failed_subscribers:
            number = len(world.logged()) + 1
            ListTrigger.source.add(float(number), f"item {number}")
            process.run_until(lambda number=number: len(world.logged()) == number)
        assert world.due() == sorted(world.logged())
        stands_still = False
        process.run_until(lambda: isinstance(process.error, _SubscriberOverflow))
        process.run_until(world.is_confirmed)
    assert sorted(world.announced()) == sorted(world.logged())


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_shutdown_with_an_event_in_flight(world: World, *, confirmed: bool) -> None:
    """What Airflow has confirmed by then stays confirmed; what it has not is announced after the start."""
    with world.triggerer() as process:
        process.run_until(lambda: bool(world.stored))
        if confirmed:
            process.run_until(world.is_confirmed)
        process.shut_down()
    assert world.due() == ([] if confirmed else [1])
    with world.triggerer() as process:
        process.run_until(world.is_confirmed)
        for _ in range(200):
            process.turn()
    assert world.announced() == {1: 1 if confirmed else 2}


def test_what_was_confirmed_although_airflow_dropped_it_is_announced_again(world: World) -> None:
    """The trigger's row was removed meanwhile: a confirmation and no event. Its consumer is called nevertheless."""
    asyncio.run(world.store.register(KEY, ListTrigger.source.watches))
    asyncio.run(world.store.subscribe(Selector(KEY.asset_name), "load", "earliest"))
    with world.triggerer(stores=False) as process:
        process.run_until(world.is_confirmed)
    assert world.stored == []
    with world.triggerer(redeliver_after=0.01) as process:
        process.run_until(lambda: bool(world.stored))
    assert set(world.announced()) == {1}
