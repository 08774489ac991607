"""Consumers that fail, die, come and go, replays and retention, in any order: two stores in step, and what must hold.

Every act is done on both stores and must give the same answer, and afterwards both must show the same. What no store
may do, whatever the other one says, is checked against short lists: what each consumer owes, and what is dead for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_incremental.core.batch import Batch, Claim, NewBatch
from airflow_provider_incremental.core.errors import LeaseLostError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import ConsumerStatus, DeadBatch
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.testing.fakes import FakeClock

__all__ = ["UpkeepMachine"]

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
LEASE = 20.0
OLD = 100.0
CONSUMERS = st.sampled_from(["load", "audit"])
WHICH = st.integers(0, 20)
SEQS = st.integers(1, 12)

Act = Callable[[WatermarkStore], Coroutine[Any, Any, Any]]


class UpkeepMachine(RuleBasedStateMachine):
    """Subclasses say which two stores, and after how many acts each to look at all that they show."""

    looks_every = 1

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.stage = AsyncExitStack()
        self.stores = self.open_stores()
        self.claims: list[Claim] = []
        self.owed: dict[str, set[int]] = {}
        self.dead: dict[str, set[int]] = {}
        self.log: dict[int, str] = {}
        self.ids: dict[int, str] = {}
        self.serial = 0
        self.steps = 0

    def open_stores(self) -> tuple[WatermarkStore, WatermarkStore]:
        """Make two empty stores; what they need besides goes into the stage."""
        raise NotImplementedError

    def both(self, act: Act) -> Any:
        """Do something on both stores; the answer is the same, an error included."""
        answers = [self.runner.run(_outcome(act(store))) for store in self.stores]
        assert answers[0] == answers[1]
        if isinstance(answers[0], tuple) and answers[0][:1] == ("lost",):
            raise LeaseLostError(answers[0][1])
        return answers[0]

    @initialize(count=st.integers(0, 4))
    def begin(self, count: int) -> None:
        """A watermark, perhaps with batches."""
        self.both(lambda store: store.register(KEY, Watches(source="list", cursor="n")))
        for _ in range(count):
            self.commit("added")

    @rule(kind=st.sampled_from(["added", "added", "removed", "baseline"]))
    def commit(self, kind: Any) -> None:
        """A batch arrives; every consumer that is known owes it, but for a baseline."""
        self.serial += 1
        new = NewBatch(low=None, high=self.serial, items=[self.serial], count=1, kind=kind)

        async def act(store: WatermarkStore) -> list[Batch]:
            watermark = await store.load(KEY)
            assert watermark is not None
            return (await store.commit(watermark, self.serial, [new], PollReport()))[1]

        [batch] = self.both(act)
        self.log[batch.seq] = kind
        self.ids[batch.seq] = batch.id
        if kind != "baseline":
            for owed in self.owed.values():
                owed.add(batch.seq)

    @rule(seqs=st.sets(SEQS, max_size=4))
    def confirm(self, seqs: set[int]) -> None:
        """Airflow has stored events."""
        self.both(lambda store: store.confirm(KEY, [self.ids.get(seq, "0" * 32) for seq in seqs]))

    @rule(consumer=CONSUMERS, start=st.sampled_from(["earliest", "latest"]))
    def subscribe(self, consumer: str, start: Any) -> None:
        """A consumer comes."""
        self.both(lambda store: store.subscribe(ORDERS, consumer, start))
        if consumer not in self.owed:
            everything = {seq for seq, kind in self.log.items() if kind != "baseline"}
            self.owed[consumer] = everything if start == "earliest" else set()
            self.dead[consumer] = set()

    @precondition(lambda self: self.owed)
    @rule(consumer=CONSUMERS)
    def unsubscribe(self, consumer: str) -> None:
        """A consumer is forgotten, with what its workers hold."""
        self.claims = [claim for claim in self.claims if claim.consumer != consumer]
        self.both(lambda store: store.unsubscribe(ORDERS, consumer))
        self.owed.pop(consumer, None)
        self.dead.pop(consumer, None)

    @precondition(lambda self: self.owed)
    @rule(consumer=CONSUMERS, ordered=st.booleans(), same=st.booleans())
    def claim(self, consumer: str, *, ordered: bool, same: bool) -> None:
        """A worker takes a batch, perhaps one that holds others."""
        self.serial += 1
        holder = self.claims[-1].holder if same and self.claims else f"worker {self.serial}"
        claim = self.both(lambda store: store.claim(ORDERS, consumer, holder, LEASE, ordered=ordered))
        if claim is not None:
            assert claim.batch.seq in self.owed[consumer]
            mine = {each.batch.seq for each in self.claims if (each.holder, each.consumer) == (holder, consumer)}
            if ordered:
                assert claim.batch.seq == min(self.owed[consumer] - mine)
            self.claims = [each for each in self.claims if _which(each) != _which(claim)] + [claim]

    @precondition(lambda self: self.claims)
    @rule(which=WHICH)
    def acknowledge(self, which: int) -> None:
        """A worker finishes, if it was not too late."""
        claim = self.claims.pop(which % len(self.claims))
        try:
            self.both(lambda store: store.acknowledge(claim))
        except LeaseLostError:
            return
        self.owed.get(claim.consumer, set()).discard(claim.batch.seq)
        self.dead.get(claim.consumer, set()).discard(claim.batch.seq)

    @precondition(lambda self: self.claims)
    @rule(which=WHICH, error=st.sampled_from([None, "failed"]), wait=st.sampled_from([0.0, LEASE]), dead=st.booleans())
    def release(self, which: int, error: str | None, wait: float, *, dead: bool) -> None:
        """A worker fails, or gives up."""
        claim = self.claims.pop(which % len(self.claims))
        before = {(each.consumer, each.batch.seq) for each in self.both(lambda store: store.dead_batches())}
        self.both(lambda store: store.release(claim, error, retry_after=wait, dead=dead))
        now = {(each.consumer, each.batch.seq) for each in self.both(lambda store: store.dead_batches())}
        assert now - before <= ({(claim.consumer, claim.batch.seq)} if dead else set())
        self.died(now - before)

    @precondition(lambda self: self.owed)
    @rule(consumer=CONSUMERS, most=st.integers(1, 2))
    def bury(self, consumer: str, most: int) -> None:
        """The next run looks for what killed its workers."""
        buried = self.both(lambda store: store.bury(ORDERS, consumer, most))
        assert all(each.attempts >= most for each in buried)
        self.died({(each.consumer, each.batch.seq) for each in buried})

    @precondition(lambda self: self.owed)
    @rule(first=SEQS, length=st.integers(0, 4), consumer=st.none() | CONSUMERS, dead_only=st.booleans())
    def replay(self, first: int, length: int, consumer: str | None, *, dead_only: bool) -> None:
        """Somebody gives batches again: exactly those that are over, and in the log."""
        last = first + length
        given = self.both(lambda store: store.replay(KEY, first, last, consumer=consumer, dead_only=dead_only))
        for name, count in given.items():
            there = {seq for seq, kind in self.log.items() if first <= seq <= last and kind != "baseline"}
            again = (there & self.dead[name]) if dead_only else there - self.owed[name]
            assert count == len(again)
            self.owed[name] |= again
            self.dead[name] -= again

    @rule(before=SEQS, limit=st.integers(1, 3))
    def prune(self, before: int, limit: int) -> None:
        """The log is cleared: never of what somebody owes, or of what is dead for somebody."""
        count = self.both(lambda store: store.prune(KEY, OLD, before, limit))
        left = {batch.seq for batch in self.both(lambda store: store.history(KEY, None, 1000))}
        gone = self.log.keys() - left
        assert len(gone) == count <= limit
        for name, owed in self.owed.items():
            assert not gone & (owed | self.dead[name])
        for seq in gone:
            assert seq < before
            del self.log[seq]

    @rule(seconds=st.sampled_from([1.0, LEASE, OLD]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.advance(seconds)

    def died(self, batches: set[tuple[str, int]]) -> None:
        """Those are dead for their consumers."""
        for consumer, seq in batches:
            self.owed[consumer].discard(seq)
            self.dead[consumer].add(seq)

    @invariant()
    def both_stores_show_the_same_and_owe_what_is_owed(self) -> None:
        """Nothing is lost, nothing that was finished comes again by itself, whatever a store is asked."""
        self.steps += 1
        if self.steps % self.looks_every:
            return
        views = [self.runner.run(_view(store)) for store in self.stores]
        assert views[0] == views[1]
        pending, statuses, dead = views[0][0], views[0][1], views[0][2]
        assert {name: set(seqs) for name, seqs in pending.items() if name in self.owed} == self.owed
        for status in statuses:
            assert (status.pending, status.dead) == (len(self.owed[status.consumer]), len(self.dead[status.consumer]))
        listed = {(each.consumer, each.batch.seq) for each in dead}
        assert listed == {(name, seq) for name, seqs in self.dead.items() for seq in seqs}

    def teardown(self) -> None:
        """Close both."""
        for store in self.stores:
            self.runner.run(store.aclose())
        self.runner.run(self.stage.aclose())
        self.runner.close()


async def _view(store: WatermarkStore) -> tuple[Any, ...]:
    """All that a store shows."""
    pending = {name: [batch.seq for batch in await store.pending(ORDERS, name)] for name in ("load", "audit")}
    free = [[batch.seq for batch in await store.pending(ORDERS, name, free=True)] for name in pending]
    log = [(batch.seq, batch.id, batch.items, batch.announced_at) for batch in await store.history(KEY, None, 1000)]
    due = [batch.seq for batch in await store.due(KEY, LEASE)]
    statuses, dead = await store.consumers(), await store.dead_batches()
    assert all(status.done_seq < min(pending[status.consumer], default=2**62) for status in statuses)
    return pending, _comparable(statuses), _comparable(dead), free, log, due, await store.load(KEY)


def _which(claim: Claim) -> tuple[str, int]:
    return claim.consumer, claim.batch.seq


async def _outcome(act: Coroutine[Any, Any, Any]) -> Any:
    """What came of an act, so that it can be compared: sizes of items are the store's own affair."""
    try:
        return _comparable(await act)
    except LeaseLostError as error:
        return ("lost", str(error)[:0])


def _comparable(answer: Any) -> Any:
    if isinstance(answer, list):
        return [_comparable(each) for each in answer]
    if isinstance(answer, ConsumerStatus):
        return replace(answer, done_seq=0)  # how far it is known to be at least: a store may look it up lazily
    if isinstance(answer, DeadBatch):
        return replace(answer, batch=_comparable(answer.batch))
    return replace(answer, items_bytes=0) if isinstance(answer, Batch) else answer
