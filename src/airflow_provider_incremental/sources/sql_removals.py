"""Rows that are gone: a walk over all keys in the database's order, beside the keys that are known.

A walk goes in steps of bounded size, each of which is committed with what it found. What is true after each commit:
every row that was delivered, or that a walk has seen, is known until its removal is reported, in the same commit that
forgets it. So nothing is reported twice, and what happens between a delivery and the next walk is not overlooked.

A walk goes over the ranges first. Then it asks by name for rows that were delivered before it began, and that it has
not come upon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.source import Memory, Pieces
from airflow_provider_incremental.sources.sql_key_reader import Key
from airflow_provider_incremental.sources.sql_known_keys import KnownKeys

__all__ = ["Gone", "Keys", "Removals"]

_RANGE_KEYS = 2_000
_STEP_KEYS = 50_000
_WALK_DELIVERIES = 100
_PAUSES = 9  # as long as the walk took: a tenth of the time, at most, is spent on walks


class Keys(Protocol):
    """The keys as they are now; see :class:`KeyReader`."""

    names: tuple[str, ...]

    async def open(self) -> None:
        """Look at the key's columns."""

    async def page(self, low: Key | None, up_to: Key | None, limit: int) -> list[Key]:
        """Return at most so many keys above one and up to another, in order."""

    async def existing(self, keys: Sequence[Key]) -> set[Key]:
        """Return those of the keys that rows have now."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What a step found.

    :param items: the keys of rows that are gone, as dictionaries by column.
    :param remember: what to change in the memory, in the commit that delivers these items.
    :param more: whether the walk goes on.
    """

    items: Sequence[Mapping[str, Any]] = ()
    remember: Pieces = field(default_factory=dict)
    more: bool = False


class Removals:
    """Finds the rows that are gone.

    :param keys: the keys as they are now.
    :param range_keys: at most so many keys a range, and :param step_keys: about so many a step.
    """

    def __init__(self, *, keys: Keys, clock: Clock, range_keys: int = _RANGE_KEYS, step_keys: int = _STEP_KEYS) -> None:
        self._keys = keys
        self._clock = clock
        self._range_keys = range_keys
        self._step_keys = step_keys
        self._took = 0.0
        self._next = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time for a step."""
        return self._clock.monotonic() >= self._next

    def rest(self, seconds: float) -> None:
        """Take no step for some time."""
        self._next = self._clock.monotonic() + seconds

    async def follow(self, memory: Memory, delivered: Sequence[Mapping[str, Any]], *, limit: int) -> Gone:
        """Note the rows that are delivered now, and take a step of a walk.

        :param limit: at most so many rows that are gone; 0 to take no step.
        :raises SourceError: when the keys cannot be read.
        """
        known = KnownKeys(memory, self._keys.names)
        await known.load()
        if known.other:
            return Gone(remember=await known.forget(), more=limit > 0)
        gone, later = await self._step(known, limit) if limit else ([], [])
        # What was found, or there, before its key was missed is removed already.
        removed = set(gone)
        keys = [key for key in [*later, *map(self._key_of, delivered)] if key not in removed]
        if keys:
            known.deliver(keys)
        items = [dict(zip(self._keys.names, key, strict=True)) for key in gone]
        return Gone(items, known.pieces(), known.walk.begun is not None and limit > 0)

    async def _step(self, known: KnownKeys, limit: int) -> tuple[list[Key], list[Key]]:
        began = self._clock.monotonic()
        if known.walk.begun is None:
            await self._keys.open()
            self._took = 0.0
        step = _Step(self._keys, known, range_keys=self._range_keys, step_keys=self._step_keys, limit=limit)
        gone = await step.take()
        self._took += self._clock.monotonic() - began
        if known.walk.begun is None:
            self.rest(self._took * _PAUSES)
        return gone, step.later

    def _key_of(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self._keys.names)


class _Step:
    """One step of a walk.

    :ivar later: keys that were missed and are there after all: the next walk has to look for them.
    """

    def __init__(self, keys: Keys, known: KnownKeys, *, range_keys: int, step_keys: int, limit: int) -> None:
        self._keys = keys
        self._known = known
        self._range_keys = range_keys
        self._left = step_keys
        self._limit = limit
        self._gone: list[Key] = []
        self._reported: dict[Key, int] = {}
        self._delivered: dict[int, list[Key]] = {}
        self._met: set[Key] = set()
        self._back: set[Key] = set()
        self.later: list[Key] = []

    async def take(self) -> list[Key]:
        """Return the keys that are gone; what is known is changed accordingly."""
        walk = self._known.walk
        await self._known.load_ranges()
        if walk.begun is None:
            walk.begun, walk.place = walk.commit, self._known.ranges[0].number
            walk.last = await self._known.last_delivery(_WALK_DELIVERIES)
        self._reported = await self._known.reported()
        self._delivered = await self._known.deliveries()
        while walk.place is not None and self._goes_on:
            await self._compare_range()
        self._forget_met()
        if walk.place is None and self._goes_on:
            await self._ask_for_delivered()
        if self._back:
            await self._known.take_back(self._back)
        if self._gone:
            self._known.report([key for key in self._gone if key not in self._back])
        if walk.place is None and not self._delivered:
            await self._known.end()
        return self._gone

    @property
    def _goes_on(self) -> bool:
        return self._left > 0 and self._room > 0

    @property
    def _room(self) -> int:
        return self._limit - len(self._gone)

    def _forget_met(self) -> None:
        """A delivered row that the walk has come upon is known by its range from now on."""
        for number, keys in list(self._delivered.items()):
            left = [key for key in keys if key not in self._met]
            if len(left) < len(keys):
                self._keep_delivery(number, left)

    async def _ask_for_delivered(self) -> None:
        """Ask for the rows that were delivered before the walk, and that it has not come upon."""
        for number, keys in list(self._delivered.items()):
            wanted = [key for key in dict.fromkeys(keys) if self._reported.get(key, -1) <= number]
            there, left = await self._ask(wanted)
            if there:  # it has moved to where the walk has been: the next one comes upon it
                self.later += there
            self._left -= len(keys)
            self._keep_delivery(number, left)
            if not self._goes_on:
                return

    def _keep_delivery(self, number: int, left: list[Key]) -> None:
        self._known.keep_delivery(number, left)
        self._delivered[number] = left
        if not left:
            del self._delivered[number]

    async def _compare_range(self) -> None:
        """Compare a range, or as much of it as the step has left."""
        known = self._known
        place = next(at for at, each in enumerate(known.ranges) if each.number == known.walk.place)
        own, low = known.ranges[place], known.ranges[place - 1].up_to if place else None
        before = await known.keys_of(own)
        missing = dict.fromkeys(before)
        self._left -= len(before)
        while True:
            page = await self._keys.page(low, own.up_to, self._range_keys + 1)
            full = len(page) > self._range_keys
            page = page[: self._range_keys]
            self._met.update(page)
            for key in page:
                missing.pop(key, None)
                if self._reported.pop(key, None) is not None:  # it has come back, and may go again
                    self._back.add(key)
            self._left -= len(page)
            if not full:
                break
            low = page[-1]
            known.keep_keys(known.new_range(place, low), page)
            place += 1
            if self._left <= 0:
                known.keep_keys(own, list(missing))
                return
        await self._finish_range(place, before, page, list(missing))

    async def _finish_range(self, place: int, before: list[Key], page: list[Key], missing: list[Key]) -> None:
        known, lately = self._known, self._known.walk.before
        own = known.ranges[place]
        # If the database has changed its order, a key may stand in two ranges until the next walk has seen both.
        there, left = await self._ask([key for key in missing if self._reported.get(key, -1) < lately])
        self.later += there
        if set(before) != {*page, *left}:
            known.keep_keys(own, [*page, *left])
        if left:
            return
        known.walk.place = None if own.up_to is None else known.ranges[place + 1].number
        if own.up_to is not None and not page:
            known.drop_range(place)

    async def _ask(self, missing: list[Key]) -> tuple[list[Key], list[Key]]:
        """Ask for keys by name, and report those that are gone, as many as there is room for.

        :return: the keys that are there after all, and those that are gone and left for later.
        """
        existing = await self._keys.existing(missing) if missing else set()
        gone = [key for key in missing if key not in existing]
        gone, left = gone[: self._room], gone[self._room :]
        self._gone += gone
        self._reported |= dict.fromkeys(gone, self._known.walk.commit)
        return [key for key in missing if key in existing], left
