"""Rows that are gone, under any weather: each of them that was delivered is reported, once.

Rows come and go between any two reads of a step, commits fail, processes start anew, the database changes its order.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from airflow_provider_incremental.sources.sql_key_reader import Key
from airflow_provider_incremental.sources.sql_removals import Removals
from airflow_provider_incremental.testing.fakes import FakeClock

__all__ = ["Pieces", "RemovalsMachine", "Table"]

NUMBERS = st.integers(0, 12)
ACTS = st.lists(st.tuples(st.sampled_from(["insert", "delete", "delete"]), NUMBERS), max_size=6)


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Run what waits for nothing; an event loop for each of a hundred thousand steps would take most of the time."""
    while True:
        try:
            work.send(None)
        except StopIteration as end:
            return end.value


class Pieces:
    """The memory, as the last commit left it."""

    def __init__(self) -> None:
        self.pieces: dict[str, bytes] = {}

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        names = sorted(name for name in self.pieces if name.startswith(prefix) and name > after)
        return [(name, self.pieces[name]) for name in names[:limit]]

    def change(self, pieces: Any) -> None:
        self.pieces |= {name: piece for name, piece in pieces.items() if piece is not None}
        for name in [name for name, piece in pieces.items() if piece is None]:
            self.pieces.pop(name, None)


class Table:
    """Rows, in an order that only the table knows; something may happen before each read.

    :ivar inserted: how often each row was there anew.
    :ivar missed: which life of a row had ended when the table was asked for it in vain.
    """

    names = ("id",)

    def __init__(self) -> None:
        self.rows: set[int] = set()
        self.inserted: dict[int, int] = {}
        self.missed: dict[int, int] = {}
        self.waiting: list[int] = []
        self.shuffle = 7
        self.meanwhile: list[tuple[str, int]] = []

    def act(self, what: str, number: int) -> None:
        if what == "insert":
            self.inserted[number] = self.inserted.get(number, 0) + (number not in self.rows)
            self.rows.add(number)
            self.waiting.append(number)
        else:
            self.rows.discard(number)

    def place(self, key: Key) -> int:
        return (key[0] * self.shuffle) % 31

    def read(self) -> list[Key]:
        if self.meanwhile:
            self.act(*self.meanwhile.pop())
        return sorted(((number,) for number in self.rows), key=self.place)

    async def open(self) -> None:
        pass

    async def page(self, low: Key | None, up_to: Key | None, limit: int) -> list[Key]:
        rows = self.read()
        if low is not None:
            rows = [key for key in rows if self.place(key) > self.place(low)]
        if up_to is not None:
            rows = [key for key in rows if self.place(key) <= self.place(up_to)]
        return rows[:limit]

    async def existing(self, keys: Sequence[Key]) -> set[Key]:
        there = set(self.read()) & set(keys)
        self.miss(set(keys) - there)
        return there

    def miss(self, keys: set[Key]) -> None:
        """Note which lives were over."""
        self.missed |= {key[0]: self.inserted[key[0]] for key in keys}


class RemovalsMachine(RuleBasedStateMachine):
    """One table, one watermark, and what its consumers were told."""

    make: Callable[[Table], Removals] = staticmethod(
        lambda table: Removals(keys=table, clock=FakeClock(), range_keys=3, step_keys=7)
    )

    def __init__(self) -> None:
        super().__init__()
        self.table, self.memory = self.make_table(), Pieces()
        self.removals = self.make(self.table)
        self.told: dict[int, str] = {}
        self.removed_at: dict[int, int] = {}

    def make_table(self) -> Table:
        """Make an empty table."""
        return Table()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Take one step."""
        return finished(work)

    @rule(acts=ACTS)
    def write(self, acts: list[tuple[str, int]]) -> None:
        """Rows come and go."""
        for act in acts:
            self.table.act(*act)

    @rule(number=NUMBERS, commits=st.booleans(), walks=st.booleans(), limit=st.integers(1, 4), meanwhile=ACTS)
    def poll(self, number: int, *, commits: bool, walks: bool, limit: int, meanwhile: list[tuple[str, int]]) -> None:
        """Deliver some of what waits, and take a step; the commit fails, or not."""
        self.step(number, commits=commits, walks=walks, limit=limit, meanwhile=meanwhile)

    def step(self, number: int, *, commits: bool, walks: bool, limit: int, meanwhile: list[tuple[str, int]]) -> bool:
        """Do so; whether the walk goes on."""
        waiting = list(dict.fromkeys(self.table.waiting[: number or None]))
        found = [{"id": each} for each in waiting if each in self.table.rows]
        taken = len(self.table.waiting[: number or None])
        self.table.meanwhile = meanwhile
        gone = self.run(self.removals.follow(self.memory, found, limit=limit if walks else 0))
        self.table.meanwhile = []
        assert len(gone.items) <= limit
        if commits:
            del self.table.waiting[:taken]
            self.memory.change(gone.remember)
            self.told |= {item["id"]: "added" for item in found}
            self.tell_removed([item["id"] for item in gone.items])
        return gone.more

    def tell_removed(self, numbers: list[int]) -> None:
        assert len(numbers) == len(set(numbers))
        for number in numbers:
            # The life that ended when the table was asked: the row may have come back since, in the same step.
            life = self.table.missed[number]
            assert self.removed_at.get(number, 0) < life, f"{number} was removed twice"
            self.removed_at[number] = life
            self.told[number] = "removed"

    @rule()
    def start_anew(self) -> None:
        """The process dies and starts again."""
        self.removals = self.make(self.table)

    @rule(shuffle=st.integers(1, 30))
    def reorder(self, shuffle: int) -> None:
        """The database compares keys in another way from now on."""
        self.table.shuffle = shuffle

    def teardown(self) -> None:
        """When nothing happens any more, everybody knows what is there."""
        for _ in range(3):  # walks
            for _ in range(500):
                if not self.step(0, commits=True, walks=True, limit=3, meanwhile=[]):
                    break
            else:
                raise AssertionError("a walk does not end")
        there = {number for number, what in self.told.items() if what == "added"}
        assert there == self.table.rows & self.told.keys()
        assert self.table.rows <= self.told.keys()
