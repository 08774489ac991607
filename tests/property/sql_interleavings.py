"""Transactions of several sessions interleaved with polls, one statement after the other, on a real database.

A history is a list of steps, each of which means something in every state. What is expected is asked of the database at
the end: every row that is there was found in the version that is there, and nothing was found twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hypothesis import strategies as st

from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.values import dumps, loads

__all__ = ["SESSIONS", "Database", "History", "Session", "Step", "histories", "random_history"]

SESSIONS = 6
WRITES = ("insert", "insert_many", "insert_now", "take", "insert_taken", "update", "delete")
STEPS = (*WRITES, *WRITES, "begin", "savepoint", "rollback_to", "commit", "commit", "rollback", "prepare", "alone")
POLLS = ("poll", "poll", "poll", "crash", "restart")

Step = tuple[str, int, int]
"""What is done, by which session, and a number that chooses the row or the limit."""


def histories(longest: int = 24) -> st.SearchStrategy[list[Step]]:
    """Return what makes up histories: mostly of steps with a poll between each two."""
    step = st.tuples(st.sampled_from(STEPS), st.integers(0, SESSIONS - 1), st.integers(0, 5))
    poll = st.tuples(st.sampled_from(POLLS), st.just(0), st.integers(1, 6))
    return st.lists(st.one_of(step, step, poll), min_size=4, max_size=longest)


def random_history(rng: random.Random, longest: int = 24) -> list[Step]:
    """Return a history by chance."""
    step = [(rng.choice(STEPS), rng.randrange(SESSIONS), rng.randrange(6)) for _ in range(rng.randint(8, longest))]
    return [each if rng.random() < 2 / 3 else (rng.choice(POLLS), 0, rng.randint(1, 6)) for each in step]


class Session(Protocol):
    """One session of a database, which runs a statement at a time."""

    async def run(self, statement: str) -> Sequence[Sequence[Any]]:
        """Run a statement and return its rows."""


class Database(Protocol):
    """What differs between databases, and what is watched."""

    sessions: list[Session]
    observer: Session

    def source(self) -> Source:
        """Return a new source on the table, as the next process makes one."""

    def begin(self, name: str) -> list[str]:
        """Return how a transaction begins; ``name`` is for one that may be prepared."""

    def prepare(self, name: str) -> list[str]:
        """Return how it is prepared; nothing where it cannot be."""

    def end(self, name: str, *, commit: bool, prepared: bool) -> list[str]:
        """Return how it ends."""

    def write(self, what: str, taken: Any) -> str:
        """Return an INSERT: ``insert``, ``insert_many``, ``insert_now``, or ``insert_taken`` with what was taken."""

    def take(self) -> str:
        """Return the query of a number, and a stamp, for a later INSERT of the same transaction."""

    def update(self, number: int) -> str:
        """Return the UPDATE of a row, which stamps it again."""


@dataclass
class Transaction:
    """An open or prepared transaction."""

    name: str
    prepared: bool = False
    savepoint: bool = False
    taken: list[Any] = field(default_factory=list)
    locks: set[int] = field(default_factory=set)


@dataclass
class History:
    """One history, as it goes on."""

    database: Database
    cursor: Any = None
    found: Counter[tuple[int, int]] = field(default_factory=Counter)
    transactions: dict[int, Transaction] = field(default_factory=dict)
    names: int = 0
    polls: int = 0

    async def play(self, steps: Sequence[Step]) -> None:
        """Play the steps on the empty table, then let every transaction end and the watermark catch up."""
        await self.database.observer.run("TRUNCATE TABLE t")
        self.source = self.database.source()
        try:
            for what, session, number in steps:
                await self._step(what, session, number)
                if what not in POLLS:
                    await self._poll(number)
            for session in list(self.transactions):
                await self._end(session, commit=session % 2 == 0)
                await self._poll(1)
        finally:
            for session in list(self.transactions):
                await self._end(session, commit=False)

    async def catch_up(self) -> None:
        """Poll until there is nothing more."""
        while await self._poll(1000):
            pass

    async def lost(self) -> set[tuple[int, int]]:
        """Return the rows, by number and version, that are there and were not found."""
        rows = await self.database.observer.run("SELECT id, version FROM t")
        return {(row[0], row[1]) for row in rows} - self.found.keys()

    @property
    def repeated(self) -> set[tuple[int, int]]:
        """The rows that were found twice in one version."""
        return {row for row, times in self.found.items() if times > 1}

    async def _step(self, what: str, session: int, number: int) -> None:
        if what in POLLS:
            await self._poll(number, crash=what == "crash")
            if what != "poll":
                self.source = self.database.source()
        elif what == "alone" and session not in self.transactions:
            await self.database.sessions[session].run(self.database.write("insert", None))
        elif what in ("commit", "rollback"):
            if session in self.transactions:
                await self._end(session, commit=what == "commit")
        elif session not in self.transactions:
            await self._begin(session)
            await self._within(self.transactions[session], session, what, number)
        elif not self.transactions[session].prepared:
            await self._within(self.transactions[session], session, what, number)

    async def _within(self, open_: Transaction, session: int, what: str, number: int) -> None:
        run = self.database.sessions[session].run
        if what == "take":
            open_.taken += await run(self.database.take())
        elif what == "insert_taken":
            if open_.taken:
                await run(self.database.write(what, open_.taken.pop()))
        elif what.startswith("insert"):
            await run(self.database.write(what, None))
        elif what in ("update", "delete"):
            await self._change(open_, session, what, number)
        elif what == "savepoint":
            await run("SAVEPOINT here")
            open_.savepoint = True
        elif what == "rollback_to" and open_.savepoint:
            await run("ROLLBACK TO SAVEPOINT here")
        elif what == "prepare":
            statements = self.database.prepare(open_.name)
            for statement in statements:
                await run(statement)
            open_.prepared = bool(statements)

    async def _change(self, open_: Transaction, session: int, what: str, number: int) -> None:
        """Change a row that is there and that no other transaction holds: nobody waits for anybody here."""
        held = set[int]().union(*(other.locks for other in self.transactions.values() if other is not open_))
        there = [
            row[0] for row in await self.database.observer.run("SELECT id FROM t ORDER BY id") if row[0] not in held
        ]
        if there:
            row = there[number % len(there)]
            open_.locks.add(row)
            change = self.database.update(row) if what == "update" else f"DELETE FROM t WHERE id = {row}"
            await self.database.sessions[session].run(change)

    async def _begin(self, session: int) -> None:
        self.names += 1
        self.transactions[session] = Transaction(f"tx{id(self)}_{self.names}")
        for statement in self.database.begin(self.transactions[session].name):
            await self.database.sessions[session].run(statement)

    async def _end(self, session: int, *, commit: bool) -> None:
        open_ = self.transactions.pop(session)
        for statement in self.database.end(open_.name, commit=commit, prepared=open_.prepared):
            await self.database.sessions[session].run(statement)

    async def _poll(self, limit: int, *, crash: bool = False) -> bool:
        found = await self.source.poll(self.cursor, max(limit, 1), frozenset())
        self.polls += 1
        if crash:
            return True
        self.cursor = loads(dumps(found.high))
        self.found.update((item["id"], item["version"]) for item in found.items)
        return found.more
