"""The keys that are known, as pieces of a source's memory.

They stand in ranges of the database's order, one after the other: each range has a list of the keys that were found in
it, and ends at a key; the last one has no end. Beside them stand the keys of deliveries that no walk has come upon yet,
and the keys that were reported as gone; both by the number of the commit, so that it is known which came first.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from airflow_provider_incremental.core.source import Memory
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_key_reader import Key

__all__ = ["KnownKeys", "Range", "Walk"]

_PREFIX = "removals/"
_WALK, _RANGES = f"{_PREFIX}walk", f"{_PREFIX}ranges"
_KEYS, _DELIVERED, _REPORTED = f"{_PREFIX}keys/", f"{_PREFIX}delivered/", f"{_PREFIX}reported/"
_PAGE = 100


@dataclass(slots=True)
class Walk:
    """How far a walk over all keys has come.

    :param commit: the number of the next commit that changes anything.
    :param begun: that of the commit in which the walk began; None while none is under way.
    :param before: that of the commit in which the walk before it began.
    :param place: the number of the range that comes next; None when all ranges are done.
    :param last: the last delivery that the walk looks for, by its number; -1 for none.
    """

    commit: int = 0
    begun: int | None = None
    before: int = 0
    place: int | None = None
    last: int = -1


@dataclass(slots=True)
class Range:
    """One range: the number under which its keys are kept, and the last key that lies in it."""

    number: int
    up_to: Key | None = None


@dataclass(slots=True)
class KnownKeys:
    """What is known, and what is to be changed of it.

    :param memory: what the last commit left.
    :param names: the key's columns.
    :param changed: pieces to write or to forget with the next commit.
    :param other: whether what is known is about another key.
    """

    memory: Memory
    names: tuple[str, ...]
    walk: Walk = field(default_factory=Walk)
    ranges: list[Range] = field(default_factory=lambda: [Range(0)])
    changed: dict[str, bytes | None] = field(default_factory=dict)
    other: bool = False
    _kept: Walk = field(default_factory=Walk)
    _other_ranges: bool = False

    async def load(self) -> None:
        """Read how far the walk has come."""
        for _, piece in await self.memory.read(prefix=_WALK, limit=1):
            names, *kept = _unpacked(piece)
            self.other = tuple(names) != self.names
            self.walk, self._kept = Walk(*kept), Walk(*kept)

    async def load_ranges(self) -> None:
        """Read the ranges."""
        for _, piece in await self.memory.read(prefix=_RANGES, limit=1):
            numbers, bounds = _unpacked(piece)
            ends = [*zip(*bounds, strict=True), None]
            self.ranges = [Range(number, up_to) for number, up_to in zip(numbers, ends, strict=True)]

    async def forget(self) -> dict[str, bytes | None]:
        """Return a part of everything, to be forgotten; the walk, which says what it is about, with the last part."""
        return {name: None for name, _ in await self.memory.read(prefix=_PREFIX, limit=_PAGE)}

    def pieces(self) -> dict[str, bytes | None]:
        """Return everything that is to be changed; nothing, when a walk has found everything as it was."""
        if self._other_ranges:
            bounds = _by_column([each.up_to for each in self.ranges if each.up_to is not None])
            self.changed[_RANGES] = _packed([[each.number for each in self.ranges], bounds])
        if self.changed or self.walk != replace(self._kept, before=self.walk.before):
            self.walk.commit += 1
            self.changed[_WALK] = _packed([list(self.names), *astuple(self.walk)])
        return self.changed

    def new_range(self, place: int, up_to: Key) -> Range:
        """Put a range before the one at a place."""
        made = Range(1 + max(each.number for each in self.ranges), up_to)
        self.ranges.insert(place, made)
        self._other_ranges = True
        return made

    def drop_range(self, place: int) -> None:
        """Let the next range begin where this one began."""
        self.changed[_name(_KEYS, self.ranges.pop(place).number)] = None
        self._other_ranges = True

    async def keys_of(self, of: Range) -> list[Key]:
        """Return the keys that are known in a range."""
        pieces = await self.memory.read(prefix=_name(_KEYS, of.number), limit=1)
        return [key for _, piece in pieces for key in _keys(piece)]

    def keep_keys(self, of: Range, keys: Sequence[Key]) -> None:
        """Write the keys of a range."""
        self.changed[_name(_KEYS, of.number)] = _packed_keys(keys)

    def deliver(self, keys: Iterable[Key]) -> None:
        """Note keys that a later walk has to look for."""
        self.changed[_name(_DELIVERED, self.walk.commit)] = _packed_keys(list(keys))

    async def last_delivery(self, most: int) -> int:
        """Return the number of the last delivery that is still noted, of so many at most; -1 when there is none."""
        pieces = await self.memory.read(prefix=_DELIVERED, limit=most)
        return _number(pieces[-1][0]) if pieces else -1

    async def deliveries(self) -> dict[int, list[Key]]:
        """Return the keys that this walk looks for, by the number of their delivery."""
        found: dict[int, list[Key]] = {}
        async for number, piece in self._each(_DELIVERED):
            if number > self.walk.last:
                break
            found[number] = _keys(piece)
        return found

    def keep_delivery(self, number: int, keys: Sequence[Key]) -> None:
        """Write which keys of a delivery are still to be looked for."""
        self.changed[_name(_DELIVERED, number)] = _packed_keys(keys) if keys else None

    def report(self, keys: Sequence[Key]) -> None:
        """Note keys that are reported with the next commit."""
        self.changed[_name(_REPORTED, self.walk.commit)] = _packed_keys(keys)

    async def take_back(self, keys: set[Key]) -> None:
        """Forget that keys were reported: their rows have come back, and are known by their ranges."""
        async for number, piece in self._each(_REPORTED):
            noted = _keys(piece)
            left = [key for key in noted if key not in keys]
            if len(left) < len(noted):
                self.changed[_name(_REPORTED, number)] = _packed_keys(left)

    async def reported(self) -> dict[Key, int]:
        """Return the keys that were reported, with the number of the commit that last did."""
        return {key: number async for number, piece in self._each(_REPORTED) for key in _keys(piece)}

    async def end(self) -> None:
        """End the walk, and forget reports that neither the next one nor a delivery before them has to know."""
        begun = self.walk.begun or 0
        self.walk = Walk(self.walk.commit, before=begun)
        oldest = await self._oldest_delivery()
        async for number, _ in self._each(_REPORTED):
            if number < begun and (oldest is None or number <= oldest):
                self.changed[_name(_REPORTED, number)] = None

    async def _oldest_delivery(self) -> int | None:
        async for number, _ in self._each(_DELIVERED):
            if self.changed.get(_name(_DELIVERED, number), b"") is not None:
                return number
        return None

    async def _each(self, prefix: str) -> AsyncIterator[tuple[int, bytes]]:
        after = ""
        while True:
            pieces = await self.memory.read(prefix=prefix, after=after, limit=_PAGE)
            for name, piece in pieces:
                yield _number(name), piece
                await asyncio.sleep(0)  # there may be many
            if len(pieces) < _PAGE:
                return
            after = pieces[-1][0]


def _name(prefix: str, number: int) -> str:
    return f"{prefix}{number:015d}"


def _number(name: str) -> int:
    return int(name.rpartition("/")[2])


def _packed(value: Any) -> bytes:
    return zlib.compress(dumps(value).encode(), 1)


def _unpacked(piece: bytes) -> Any:
    return loads(zlib.decompress(piece).decode())


def _packed_keys(keys: Sequence[Key]) -> bytes:
    return _packed(_by_column(keys))


def _by_column(keys: Sequence[Key]) -> list[list[Any]]:
    # Half as many values to write as a list for each key would be.
    return [list(values) for values in zip(*keys, strict=True)]


def _keys(piece: bytes) -> list[Key]:
    return list(zip(*_unpacked(piece), strict=True))
