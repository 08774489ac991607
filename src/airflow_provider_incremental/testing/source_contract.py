"""The behaviour that every source must show, so that the watermark above it loses nothing and repeats nothing.

A source of your own comes with a :class:`SourceStage` that says how a test puts items in, and passes or does not::

    class TestMySource(SourceContract):
        @pytest.fixture
        async def stage(self, tmp_path: Path) -> SourceStage:
            return MyStage(tmp_path)

The suite needs pytest and pytest-asyncio. A call that has not returned after :data:`ANSWERS_WITHIN` seconds fails; one
that blocks the event loop cannot be told from outside: set a time limit for the whole test run as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES
from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing._asked import AskedSource, NoAnswerError
from airflow_provider_incremental.testing._source_window import WindowTests

__all__ = ["ANSWERS_WITHIN", "Reader", "SourceContract", "SourceStage"]

MANY = 1000
ANSWERS_WITHIN = 30.0
"""Seconds that the suite waits for each call of a source."""


class SourceStage(Protocol):
    """What a test does to the thing that a source watches."""

    def open(self) -> Source:
        """Return a new source on it, as the next process makes one. No upper bound may hold added items back."""

    async def add(self, at: int, name: str) -> None:
        """Put an item in.

        :param at: its place in the source's order, from 0 to 1,000; a window reaches back over 10 places.
        :param name: sets it apart from others of its place, and orders it among them.
        """

    def name_of(self, item: Any) -> str:
        """Return the name of an item that was found."""

    async def fail(self) -> None:
        """Make it unreadable, until :meth:`work`."""

    async def work(self) -> None:
        """Make it readable again."""


def opened(stage: SourceStage) -> Source:
    """Return a new source, asked with patience that ends."""
    return AskedSource(stage.open(), within=ANSWERS_WITHIN)


@dataclass
class Reader:
    """Reads a source to its end as a feed does that is restarted after every poll: cursor and items go through JSON."""

    stage: SourceStage
    limit: int = MANY
    cursor: Cursor = None
    names: list[str] = field(default_factory=list)
    log: list[tuple[Cursor, Sequence[bytes]]] = field(default_factory=list)

    def seen(self, source: Source) -> Collection[bytes]:
        """The fingerprints of the batches that reach into the window."""
        inside = [marks for high, marks in self.log if source.in_window(high, self.cursor)]
        return frozenset[bytes]().union(*inside) if source.lateness else frozenset()

    async def poll(self) -> Found:
        """Poll once with a new source, and commit."""
        source = opened(self.stage)
        found = await source.poll(self.cursor, self.limit, self.seen(source))
        await source.aclose()
        items = loads(dumps(list(found.items)))
        assert len(items) == found.size <= self.limit
        self.cursor = loads(dumps(found.high))
        self.names += [self.stage.name_of(item) for item in items]
        self.log += [(self.cursor, found.fingerprints)] if found.size else []
        return found

    async def read(self) -> list[str]:
        """Poll until nothing is left, and return the names of what was found by that."""
        before = len(self.names)
        for _ in range(MANY):
            found = await self.poll()
            if not found.more:
                return self.names[before:]
        msg = f"there is always more after {MANY} polls: the limit stalls at {self.cursor!r}"
        raise AssertionError(msg)

    async def start(self, baseline: Baseline | None = None) -> None:
        """Begin at a baseline; by default at the latest."""
        if baseline is None:
            source = opened(self.stage)
            baseline = await source.latest()
            await source.aclose()
        self.cursor = loads(dumps(baseline.cursor))
        self.log = [(self.cursor, baseline.fingerprints)]


async def raises(reading: Awaitable[object]) -> None:
    """Fail unless a read raises, whatever it raises."""
    try:
        answer = await reading
    except NoAnswerError:
        raise
    except Exception:
        return
    msg = f"the source cannot be read, and answered {answer!r}"
    raise AssertionError(msg)


@pytest.mark.asyncio
class SourceContract(WindowTests):
    """Subclass it with a fixture ``stage``: an empty place, and how to fill it."""

    ties = True
    """Whether several items may have the same ``at``."""

    @pytest.fixture
    def stage(self) -> SourceStage:
        """An empty place to watch; every source gives its own."""
        msg = f"{type(self).__name__} must define a fixture `stage` that returns a SourceStage"
        raise NotImplementedError(msg)

    @pytest.fixture
    def reader(self, stage: SourceStage) -> Reader:
        """What reads the source."""
        return Reader(stage)

    async def filled(self, stage: SourceStage) -> list[str]:
        """Put items in, out of order and with ties; return their names."""
        places = [500, 100, 300, 300, 300, 300, 200, 900, 900] if self.ties else [500, 100, 300, 200, 900, 700]
        names = [f"item-{number}" for number in range(len(places))]
        for at, name in zip(places, names, strict=True):
            await stage.add(at, name)
        return names

    async def test_watches_is_the_same_for_every_process(self, stage: SourceStage, reader: Reader) -> None:
        """What is watched is one line of text each, and does not change by reading."""
        first, second = opened(stage), opened(stage)
        await self.filled(stage)
        await first.poll(None, 1, frozenset())
        await reader.read()
        assert first.watches == second.watches == opened(stage).watches
        for text in (first.watches.source, first.watches.cursor):
            assert text
            assert text.isprintable()

    async def test_nothing_there(self, reader: Reader) -> None:
        """An empty source finds nothing, has nothing more, and leaves the cursor where it is."""
        found = await reader.poll()
        assert (found.size, found.more, found.high) == (0, False, None)

    async def test_everything_is_found_once_from_the_start(self, stage: SourceStage, reader: Reader) -> None:
        """No lower bound means everything, and the second time nothing."""
        names = await self.filled(stage)
        assert sorted(await reader.read()) == sorted(names)
        assert await reader.read() == []

    async def test_the_cursor_stays_when_nothing_is_new(self, stage: SourceStage, reader: Reader) -> None:
        """A poll that finds nothing returns the cursor that it was given, equal in value and in form."""
        await self.filled(stage)
        await reader.read()
        before = dumps(reader.cursor)
        for _ in range(3):
            found = await reader.poll()
            assert (found.size, found.more, dumps(found.high)) == (0, False, before)

    @pytest.mark.parametrize("limit", [1, 2, 3, 5])
    async def test_a_limit_splits_nothing(self, stage: SourceStage, limit: int) -> None:
        """Any limit finds the same items in the same order, ties too, though each poll is by another process."""
        names = await self.filled(stage)
        whole = await Reader(stage).read()
        assert sorted(whole) == sorted(names)
        assert await Reader(stage, limit=limit).read() == whole

    async def test_the_order_is_that_of_the_source(self, stage: SourceStage, reader: Reader) -> None:
        """Items come by their place, whatever the order in which they appeared."""
        for at in (7, 3, 9, 1, 5, 8, 2, 6, 4):
            await stage.add(at * 100, f"at-{at}")
        assert await reader.read() == [f"at-{at}" for at in range(1, 10)]

    async def test_what_comes_later_is_found_alone(self, stage: SourceStage, reader: Reader) -> None:
        """Each poll finds what appeared above the cursor since the last one."""
        for at in range(100, 1000, 100):
            await stage.add(at, f"at-{at}")
            assert await reader.read() == [f"at-{at}"]

    async def test_a_tie_that_comes_later_is_found(self, stage: SourceStage, reader: Reader) -> None:
        """An item with the place of the last one, above it in the order, is new; nothing there is found again."""
        if not self.ties:
            return
        await stage.add(100, "b")
        assert await reader.read() == ["b"]
        await stage.add(100, "c")
        assert await reader.read() == ["c"]
        assert await reader.read() == []

    async def test_the_latest_of_nothing(self, stage: SourceStage, reader: Reader) -> None:
        """A start at the latest of an empty source delivers whatever comes, the very first item too."""
        await reader.start()
        assert await reader.read() == []
        await stage.add(0, "first")
        assert await reader.read() == ["first"]

    async def test_the_latest_leaves_out_what_is_there(self, stage: SourceStage, reader: Reader) -> None:
        """A start at the latest finds nothing of what is there, and everything that comes after."""
        await self.filled(stage)
        await reader.start()
        assert await reader.read() == []
        await stage.add(1000, "new")
        assert await reader.read() == ["new"]

    async def test_a_start_at_a_cursor(self, stage: SourceStage, reader: Reader) -> None:
        """A start at the cursor of an item finds what lies above it."""
        for at in (100, 200, 300, 400):
            await stage.add(at, f"at-{at}")
        first = Reader(stage, limit=2)
        await first.poll()
        source = opened(stage)
        await reader.start(await source.at(first.cursor))
        await source.aclose()
        assert await reader.read() == ["at-300", "at-400"]

    async def test_an_error_is_not_emptiness(self, stage: SourceStage, reader: Reader) -> None:
        """What cannot be read raises, from the start and from a cursor; once it can be read, nothing is missing."""
        await stage.add(100, "a")
        await reader.read()
        await stage.add(200, "b")
        await stage.fail()
        for cursor in (None, reader.cursor):
            source = opened(stage)
            await raises(source.poll(cursor, MANY, frozenset()))
            await raises(source.latest())
            await source.aclose()
        await stage.work()
        assert await reader.read() == ["b"]

    async def test_a_source_outlives_an_error(self, stage: SourceStage) -> None:
        """The same source reads again when the trouble is over: a feed does not make a new one."""
        source = opened(stage)
        await stage.add(100, "a")
        await stage.fail()
        await raises(source.poll(None, MANY, frozenset()))
        await stage.work()
        found = await source.poll(None, MANY, frozenset())
        assert [stage.name_of(item) for item in found.items] == ["a"]
        await source.aclose()

    async def test_one_source_polls_for_a_long_time(self, stage: SourceStage) -> None:
        """A source that lives on finds the same as one that is made anew for each poll."""
        names = await self.filled(stage)
        source, reader = opened(stage), Reader(stage)
        found = list[str]()
        for _ in range(MANY):
            polled = await source.poll(reader.cursor, 2, reader.seen(source))
            reader.cursor = polled.high
            reader.log.append((polled.high, polled.fingerprints))
            found += [stage.name_of(item) for item in polled.items]
            if not polled.more:
                break
        await source.aclose()
        assert sorted(found) == sorted(names)

    async def test_fingerprints_are_one_for_each_item(self, stage: SourceStage) -> None:
        """A source that reads a window again names each item, the same in every process; another source need not."""
        names = await self.filled(stage)
        source = opened(stage)
        first = await source.poll(None, MANY, frozenset())
        second = await opened(stage).poll(None, MANY, [])
        assert list(first.fingerprints) == list(second.fingerprints)
        assert {len(mark) for mark in first.fingerprints} <= {FINGERPRINT_BYTES}
        assert len(set(first.fingerprints)) == (len(names) if source.lateness else len(first.fingerprints))
