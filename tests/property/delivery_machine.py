"""Two writers and two consumers on one watermark, in any order, crashing anywhere: nothing lost, nothing twice.

The steps of the order of things are taken one at a time, so that hypothesis may put anything between any two of them.
A model says what each step must answer; the store under test is asked after every step whether all of it is true.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_incremental.core.batch import Claim, NewBatch
from airflow_provider_incremental.core.errors import ConflictError, LeaseLostError
from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watermark, WatermarkKey
from airflow_provider_incremental.core.window import SeenWindow
from airflow_provider_incremental.testing.fakes import FakeClock, ListSource
from tests.property.delivery_model import ModelConsumer, WatermarkModel, Work

__all__ = ["DeliveryMachine"]

T = TypeVar("T")

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
REDELIVER = 50.0
LEASE = 20.0
WRITERS = st.integers(0, 1)
CONSUMERS = st.sampled_from(["load", "audit"])
STARTS = st.sampled_from(["earliest", "latest"])
WHICH = st.integers(0, 20)
ACTS = st.sampled_from(["acknowledge", "renew", "release", "die"])


class Writer:
    """What one process of a trigger knows; a crash makes a new one."""

    def __init__(self, store: WatermarkStore, source: ListSource) -> None:
        self.window = SeenWindow(store, source)
        self.watermark: Watermark | None = None
        self.found: Found | None = None
        self.read: set[str] = set()
        self.flights: list[set[int]] = []

    @property
    def flying(self) -> set[int]:
        """The numbers of the batches that it has announced and that nobody has confirmed."""
        return set().union(*self.flights)


class DeliveryMachine(RuleBasedStateMachine):
    """Subclasses say which store."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.stage = AsyncExitStack()
        self.store = self.open_store()
        self.source = ListSource()
        self.model = WatermarkModel(self.source)
        self.writers: list[Writer] = []
        self.claims: list[Claim] = []
        self.serial = 0

    def open_store(self) -> WatermarkStore:
        """Make an empty store; what it needs besides goes into the stage."""
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Take one step."""
        return self.runner.run(work)

    @initialize(lateness=st.sampled_from([0.0, 5.0]), items=st.integers(0, 8), consumer=st.none() | CONSUMERS)
    def begin(self, lateness: float, items: int, consumer: str | None) -> None:
        """Start both writers on a source with or without a window, perhaps with a consumer that was there before."""
        self.source.lateness = lateness
        self.writers = [Writer(self.store, self.source) for _ in range(2)]
        for at in range(items):
            self.appear(at)
        if consumer is not None:
            self.write(0, 3, 1, learns=True)
            self.subscribe(consumer, "earliest", [])

    @rule(at=st.integers(0, 20))
    def appear(self, at: int) -> None:
        """An item appears, in order or late, alone or among others of its time."""
        self.serial += 1
        self.model.added(self.source.add(at, f"{self.serial % 3}-{self.serial}"))

    @rule(which=WRITERS, limit=st.integers(1, 3), learns=st.booleans(), steps=st.integers(1, 4))
    def write(self, which: int, limit: int, steps: int, *, learns: bool) -> None:
        """A writer goes on from where it is: load, poll, commit, and so on, so many steps."""
        for _ in range(steps):
            self.step(which, limit, learns=learns)

    @rule(limit=st.integers(1, 3), steps=st.integers(1, 4))
    def write_in_step(self, limit: int, steps: int) -> None:
        """Both writers go on, by turns."""
        for _ in range(steps):
            for which in range(2):
                self.step(which, limit, learns=True)

    def step(self, which: int, limit: int, *, learns: bool) -> None:
        """Take a writer's next step."""
        writer = self.writers[which]
        if writer.watermark is None:
            self.load(writer)
        elif writer.found is None:
            self.poll(writer, writer.watermark, limit)
        else:
            self.commit(which, writer.watermark, writer.found, learns=learns)

    def load(self, writer: Writer) -> None:
        """Load the watermark."""
        writer.watermark = self.run(self.store.register(KEY, self.source.watches))
        assert (writer.watermark.version, writer.watermark.cursor) == (self.model.version, self.model.cursor)

    def poll(self, writer: Writer, watermark: Watermark, limit: int) -> None:
        """Read the source from the watermark that was loaded."""
        seen = self.run(writer.window.load(watermark))
        writer.read = {item.name for item in self.source.items}
        writer.found = self.run(self.source.poll(watermark.cursor, limit, seen))

    def commit(self, which: int, watermark: Watermark, found: Found, *, learns: bool) -> None:
        """Commit what was read; perhaps the writer dies before it learns the answer."""
        writer = self.writers[which]
        writer.watermark, writer.found = None, None
        if not found.size and found.high == watermark.cursor:
            return
        low, marks = watermark.cursor, found.fingerprints
        new = NewBatch(low=low, high=found.high, items=found.items, count=found.size, fingerprints=marks)
        try:
            moved, batches = self.run(self.store.commit(watermark, found.high, [new] * bool(found.size), PollReport()))
        except ConflictError:
            assert watermark.version != self.model.version
            return
        assert watermark.version == self.model.version
        self.model.committed(found.high, batches, [item["name"] for item in found.items], writer.read)
        if not learns:
            self.crash(which)
            return
        writer.window.follow(moved)
        writer.watermark = moved if found.more else None

    @rule(which=WRITERS)
    def announce(self, which: int) -> None:
        """A writer asks what is due, and yields it."""
        writer = self.writers[which]
        due = [batch.seq for batch in self.run(self.store.due(KEY, REDELIVER, frozenset(writer.flying)))]
        assert due == self.model.due(REDELIVER, writer.flying, self.clock.now())
        if due:
            self.model.announcing(due, self.clock.now())
            assert self.run(self.store.begin_announcement(KEY, due[-1], 0.0)) == 0
            writer.flights.append(set(due))

    @precondition(lambda self: any(writer.flights for writer in self.writers))
    @rule(which=WRITERS, stored=st.booleans())
    def confirm_or_drop(self, which: int, *, stored: bool) -> None:
        """Airflow has stored the oldest event of a writer, or says that it has not."""
        writer = self.writers[which]
        if writer.flights:
            flight = writer.flights.pop(0)
            if stored:
                self.run(self.store.confirm(KEY, [self.model.batches[seq].id for seq in flight]))
                self.model.announced |= dict.fromkeys(flight, self.clock.now())

    @rule(which=WRITERS)
    def crash(self, which: int) -> None:
        """A writer dies with everything it knew; another one starts."""
        self.writers[which] = Writer(self.store, self.source)

    @rule(
        consumer=CONSUMERS, start=st.sampled_from(["earliest", "latest"]), named=st.lists(st.integers(1, 5), max_size=2)
    )
    def subscribe(self, consumer: str, start: Any, named: list[int]) -> None:
        """A consumer appears, or a known one again, with or without the batches that started its run."""
        mine = [self.model.batches[seq] for seq in named if seq in self.model.batches]
        known = self.run(self.store.subscribe(ORDERS, consumer, start, [batch.id for batch in mine]))
        if known and consumer not in self.model.consumers:
            latest = min((batch.seq for batch in mine), default=len(self.model.batches) + 1) - 1
            self.model.consumers[consumer] = ModelConsumer(0 if start == "earliest" else latest)

    @precondition(lambda self: self.model.consumers)
    @rule(which=WHICH, named=st.none() | st.none() | WHICH, then=st.none() | ACTS)
    def claim(self, which: int, named: int | None, then: str | None) -> None:
        """A worker takes the next batch, or the one that it was made for, and keeps it or does something at once."""
        self.serial += 1
        holder = f"worker {self.serial}"
        consumer, known = list(self.model.consumers.items())[which % len(self.model.consumers)]
        candidates = self.model.seqs
        if named is not None and candidates:
            candidates = [candidates[named % len(candidates)]]
        batch_id = self.model.batches[candidates[0]].id if named is not None and candidates else None
        claim = self.run(self.store.claim(ORDERS, consumer, holder, LEASE, batch_id))
        assert (claim and claim.batch.seq) == known.next(candidates, self.clock.now())
        if claim is not None:
            before = known.work.get(claim.batch.seq)
            assert claim.attempt == (before.attempt + 1 if before else 1)
            assert [item["name"] for item in claim.batch.items or ()] == self.model.items[claim.batch.seq]
            known.work[claim.batch.seq] = Work(holder, claim.attempt, claim.lease_until)
            self.claims.append(claim)
            if then is not None:
                self.finish(-1, then)

    @precondition(lambda self: self.claims)
    @rule(which=WHICH, act=ACTS)
    def finish(self, which: int, act: str) -> None:
        """A worker finishes, goes on, gives up or dies, whether or not the batch is still its own."""
        claim = self.claims.pop(which % len(self.claims))
        work = self.model.consumers[claim.consumer].work[claim.batch.seq]
        mine = work.holder == claim.holder
        try:
            if act == "acknowledge":
                self.run(self.store.acknowledge(claim))
            elif act == "renew":
                self.claims.append(self.run(self.store.renew(claim, LEASE)))
            elif act == "release":
                self.run(self.store.release(claim, "gave up"))
        except LeaseLostError:
            assert not mine
            assert act != "release"
            return
        assert mine or act in ("release", "die")
        if mine and act == "renew":
            work.lease_until = self.clock.now() + dt.timedelta(seconds=LEASE)
        elif mine and act != "die":
            work.state = act + "d"

    @rule(seconds=st.sampled_from([1.0, LEASE / 2, LEASE, REDELIVER]))
    def wait(self, seconds: float) -> None:
        """Time passes: leases run out, batches fall due again."""
        self.clock.advance(seconds)

    @precondition(lambda self: self.model.batches)
    @rule(at=st.none() | st.integers(0, 20), reread=st.booleans())
    def rewind(self, at: int | None, *, reread: bool) -> None:
        """Somebody sets the watermark back, or forward."""
        cursor = None if at is None else (at, "~")
        self.run(self.store.rewind(KEY, cursor, reread=reread))
        self.model.rewound(cursor, reread=reread)

    @invariant()
    def the_store_agrees(self) -> None:
        """Watermark and log are what the model says: no move but by a commit or a rewind, no gap, no loss."""
        watermark = self.run(self.store.load(KEY))
        version, cursor = (watermark.version, watermark.cursor) if watermark else (0, None)
        assert (version, cursor) == (self.model.version, self.model.cursor)
        log = self.run(self.store.history(KEY, limit=1000))
        assert [batch.seq for batch in reversed(log)] == list(range(1, len(self.model.batches) + 1))
        assert [batch.id for batch in reversed(log)] == [self.model.batches[seq].id for seq in self.model.seqs]
        self.model.check_items()

    @invariant()
    def every_batch_is_due_in_flight_leased_or_acknowledged(self) -> None:
        """Whatever has died, what is not finished will be heard of again; what is finished is not."""
        due = {batch.seq for batch in self.run(self.store.due(KEY, 0.0))}
        for consumer, known in self.model.consumers.items():
            working = any(known.holds(seq, self.clock.now()) for seq in known.work)
            wanted = [seq for seq in self.model.seqs if known.wants(seq)]
            assert working or set(wanted) <= due
            assert [batch.seq for batch in self.run(self.store.pending(ORDERS, consumer))] == wanted
        assert set(self.model.unconfirmed()) <= due

    def teardown(self) -> None:
        """Faults off: the rest is found, announced and finished by everybody, and then nothing is due."""
        try:
            if self.writers:
                self.drain()
        finally:
            self.run(self.store.aclose())
            self.run(self.stage.aclose())
            self.runner.close()

    def drain(self) -> None:
        """Let everything happen in order."""
        self.clock.advance(LEASE)
        self.crash(0)
        for _ in range(len(self.source.items) + 2):
            self.write(0, 2, 3, learns=True)
        self.announce(0)
        self.confirm_or_drop(0, stored=True)
        for consumer, known in self.model.consumers.items():
            for seq in [seq for seq in self.model.seqs if known.wants(seq)]:
                claim = self.run(self.store.claim(ORDERS, consumer, "the last worker", LEASE))
                assert claim is not None
                assert claim.batch.seq == seq
                self.run(self.store.acknowledge(claim))
            assert self.run(self.store.pending(ORDERS, consumer)) == []
        assert self.run(self.store.due(KEY, 0.0)) == []
        assert {item.name for item in self.source.items} - self.model.excused <= set(self.model.delivered())
