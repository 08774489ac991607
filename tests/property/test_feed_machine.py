"""The real feed and intake under any weather: processes die at any operation, stores and sources fail, items come late.

Time is fake, so that a history of hours takes milliseconds, and every wait of the feed is part of what is tested.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from airflow_provider_incremental.core.errors import SourceError, StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.testing.crashing import CrashingStore, ProcessDied
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.miniature import KEY, Deployment, Trigger

ORDERS = Selector(KEY.asset_name)
WHEN = st.sampled_from(["before", "after"])
FEED_OPERATIONS = st.sampled_from(["load", "register", "commit", "report", "due", "identity", "confirm", "seen"])
WORK_OPERATIONS = st.sampled_from(["subscribe", "claim", "acknowledge"])
FAULTS = st.tuples(WHEN, FEED_OPERATIONS, st.integers(0, 3))
SECONDS = st.sampled_from([0.0, 3.0, 6.0, 11.0, 31.0, 61.0, 310.0])


def arm(store: CrashingStore, when: Any, operation: str, times: int) -> None:
    """Make an operation fail so many times, or kill the process instead."""
    if times:
        store.fail(when, operation, StoreUnavailableError("gone"), times)
    else:
        store.die(when, operation)


class FeedMachine(RuleBasedStateMachine):
    """One watermark, up to three triggers on it at a time, and runs of one consuming DAG."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.deployment = Deployment(FakeClock())
        self.serial = 0
        self.excused: set[str] = set()
        self.repeats = Counter[str]()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Take one step."""
        return self.runner.run(work)

    @property
    def running(self) -> list[Trigger]:
        """The triggers that live."""
        return [trigger for trigger in self.deployment.triggers if not trigger.task.done()]

    @initialize(lateness=st.sampled_from([0.0, 10.0]))
    def begin(self, lateness: float) -> None:
        """Take a source with or without a window."""
        self.deployment.source.lateness = lateness

    @rule(deltas=st.lists(st.integers(-12, 3), min_size=1, max_size=5))
    def appear(self, deltas: list[int]) -> None:
        """Items appear: most of them around the present, some of them too late for the window."""
        watermark = self.run(self.deployment.store.load(KEY))
        cursor = watermark.cursor if watermark else None
        for delta in deltas:
            self.serial += 1
            at = 20 + self.serial // 4 + delta
            item = self.deployment.source.add(at, f"{self.serial % 3}-{self.serial}")
            if cursor is not None:
                lateness = self.deployment.source.lateness
                behind = at < cursor[0] - lateness if lateness else item.cursor <= cursor
                self.excused |= {item.name} if behind else set()

    @precondition(lambda self: len(self.running) < 3)
    @rule(
        limit=st.integers(1, 4),
        airflow=st.sampled_from(["stores", "stores", "confirms", "drops", "kills"]),
        faults=st.lists(FAULTS, max_size=3),
        seconds=SECONDS,
    )
    def start(self, limit: int, airflow: str, faults: list[tuple[Any, str, int]], seconds: float) -> None:
        """A process of the trigger starts and runs; Airflow treats its events well, or not; it has faults, or not."""
        after = 5.0 if airflow in ("stores", "kills") else None

        async def begin() -> None:
            trigger = self.deployment.trigger(limit=limit, airflow=airflow, confirm_after=after)
            for fault in faults:
                arm(trigger.store, *fault)
            await self.deployment.run_for(seconds)

        self.run(begin())

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 2))
    def stop(self, which: int) -> None:
        """A process is shut down."""
        self.run(self.running[which % len(self.running)].stop())

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 2), fault=FAULTS)
    def fault(self, which: int, fault: tuple[Any, str, int]) -> None:
        """The next such operation of a process kills it, or fails a few times."""
        arm(self.running[which % len(self.running)].store, *fault)

    @rule(times=st.integers(1, 3))
    def source_fails(self, times: int) -> None:
        """The next reads of the source fail."""
        self.deployment.source.errors.extend([SourceError("down")] * times)

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        """Time passes for all that runs."""
        self.run(self.deployment.run_for(seconds))

    @rule(fault=st.none() | st.tuples(WHEN, WORK_OPERATIONS))
    def work(self, fault: tuple[Any, str] | None) -> None:
        """A run of the consuming DAG, which may die at any of its operations."""
        store = CrashingStore(self.deployment.store)
        self.serial += 1
        if fault is not None:
            store.die(*fault)
        try:
            self.run(self.deployment.work(store, holder=f"run {self.serial}"))
        except ProcessDied:
            if fault == ("before", "acknowledge"):
                self.repeats.update(self.deployment.held)
        self.deployment.held = []

    @invariant()
    def nothing_is_lost_or_repeated(self) -> None:
        """The log has every item that the watermark has passed, once, in batches without gaps."""
        watermark = self.run(self.deployment.store.load(KEY))
        logged = self.run(self.deployment.logged())
        assert len(logged) == len(set(logged))
        if watermark is not None and watermark.cursor is not None:
            lateness = self.deployment.source.lateness
            edge = (
                (watermark.cursor[0] - lateness, "")
                if lateness
                else (*watermark.cursor[:1], watermark.cursor[1] + "\0")
            )
            passed = {item.name for item in self.deployment.source.items if item.cursor < edge}
            assert passed - self.excused <= set(logged)
        assert set(self.deployment.processed) <= set(logged)

    @invariant()
    def only_death_ends_a_trigger(self) -> None:
        """A trigger that has ended was stopped, or was killed by a fault."""
        for trigger in self.deployment.triggers:
            assert not trigger.task.done() or trigger.task.cancelled() or trigger.died

    @invariant()
    def nobody_processes_twice_but_for_the_dead(self) -> None:
        """A batch is processed again only when a worker died after its work and before its acknowledgement."""
        counted = Counter(self.deployment.processed)
        assert all(counted[name] <= 1 + self.repeats[name] for name in counted)

    def teardown(self) -> None:
        """Fair weather: one trigger, one consumer, and in the end everything was told and processed."""
        try:
            self.run(self.settle_down())
            self.nothing_is_lost_or_repeated()
            self.nobody_processes_twice_but_for_the_dead()
        finally:
            for trigger in self.running:
                self.run(trigger.stop())
            self.runner.close()

    async def settle_down(self) -> None:
        """Let everything come to its end."""
        deployment = self.deployment
        for trigger in self.running:
            await trigger.stop()
        deployment.source.errors.clear()
        deployment.trigger(limit=3)
        await deployment.run_for(1000)
        await deployment.work(holder="the last run")
        await deployment.run_for(1000)
        owed = {item.name for item in deployment.source.items} - self.excused
        assert owed <= set(await deployment.logged())
        assert owed <= set(deployment.processed)
        assert await deployment.store.pending(ORDERS, "load") == []
        assert await deployment.store.due(KEY, 0.0) == []
        told = {seq for trigger in deployment.triggers for each in trigger.yielded for seq in each.seqs}
        assert told == {batch.seq for batch in await deployment.store.history(KEY, limit=10**6)}


def test_the_feed_loses_and_repeats_nothing() -> None:
    """Hypothesis looks for a history that loses, repeats or strands an item, or ends a trigger."""
    run_state_machine_as_test(FeedMachine, settings=settings(max_examples=150, stateful_step_count=50, deadline=None))
