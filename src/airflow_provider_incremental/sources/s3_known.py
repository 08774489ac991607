"""The keys that were delivered and are not gone: kept in the source's memory, read as a stream, never whole.

Most keys stand in sorted, compressed blocks. What a commit adds and takes away is written beside them, as one entry of
a log, so that a commit of a thousand keys is one small piece however they are spread. When the log has grown, commits
fold it into the blocks on the way, a bounded number of blocks each, from the first key to the last; then the entries
that were there when this began are dropped. So whether a key is known is what its latest entry says, or else its block.

Only the log and the head are kept in this process, and they are used only while the token in the head is the one that
this process has written: whoever else committed meanwhile has replaced it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace

from airflow_provider_incremental.core.source import Memory
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.s3_known_blocks import decode_keys, encode_keys, split_keys
from airflow_provider_incremental.sources.s3_known_names import (
    LAST,
    KeyBlock,
    block_name,
    name_above,
    read_block,
    written_block,
)
from airflow_provider_incremental.sources.s3_pages import key_order
from airflow_provider_incremental.sources.s3_sweep import Range

__all__ = ["KnownKeys"]

_HEAD, _LOG, _BLOCK = "known/head", "known/log/", "known/block/"
_BLOCKS_AT_ONCE = 8
_LOGS_AT_ONCE = 32
_FOLD_FROM_LOGS = 16
_FOLD_FROM_KEYS = 8192
_FOLDED_AT_ONCE = 32
_NEXT = b"\x00"  # behind a key, it makes the one that follows it

Pieces = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of the known keys.

    :param high: the watermark that they belong to, in its JSON form.
    :param noted_to: keys up to this one have been looked at for what was there before; None: all have.
    :param newest: the number of the newest entry of the log.
    :param fold: the number up to which entries are being folded; 0: none are.
    :param folded_to: the edge up to which blocks are done, in hexadecimal digits.
    """

    token: str = ""
    high: str = "null"
    noted_to: str | None = None
    newest: int = 0
    fold: int = 0
    folded_to: str = ""


class KnownKeys:
    """The known keys of one watermark.

    :param prefix: what all keys begin with.
    """

    def __init__(self, *, prefix: str) -> None:
        self._prefix = key_order(prefix)
        self._memory: Memory | None = None
        self._head: Head | None = None
        self._log: dict[int, dict[bytes, bool]] = {}
        self._latest: dict[bytes, bool] = {}
        self._keys: list[bytes] = []  # of the latest, sorted

    @property
    def token(self) -> str:
        """Which commit what is known here belongs to."""
        return self._now.token

    @property
    def noted_to(self) -> str | None:
        """Up to which key a look at what was there before has come, "" for none; None when it has come to the end."""
        noted_to = self._now.noted_to
        return self.absolute(bytes.fromhex(noted_to)) if noted_to else noted_to

    def relative(self, key: str) -> bytes:
        """Return what stands behind the prefix in a key: the form in which keys are kept and compared."""
        return key_order(key)[len(self._prefix) :]

    def absolute(self, rest: bytes) -> str:
        """Return the key of :meth:`relative`."""
        return (self._prefix + rest).decode("utf-8", "surrogateescape")

    async def open(self, memory: Memory, low: Cursor) -> None:
        """Take up what was committed last.

        :param low: the watermark. When it is another one than with the last commit, somebody else has moved it, and
            what is there has to be looked at anew.
        """
        self._memory = memory
        found = await memory.read(prefix=_HEAD, limit=1)
        head = Head(**json.loads(found[0][1])) if found else Head()
        if self._head is None or head.token != self._head.token:
            await self._read_log()
        if head.high != dumps(low):
            head = replace(head, noted_to=None if low is None else "")
        self._head = head

    async def between(self, keys: Range) -> AsyncGenerator[Sequence[bytes], None]:
        """Yield the known keys of a range (what stands behind the prefix), sorted, some thousand at a time."""
        start, end = self.bounds(keys)
        async for block in self._blocks(start):
            yield self._current(block.keys(), start, _lesser(block.edge, end))
            if block.edge is None or (end is not None and block.edge >= end):
                return
            start = max(start, block.edge)

    async def commit(
        self, *, high: Cursor, added: Iterable[str] = (), removed: Iterable[bytes] = (), noted_to: str | None = None
    ) -> Pieces:
        """Return what to write along with a move of the watermark."""
        entries = dict.fromkeys(map(self.relative, added), True) | dict.fromkeys(removed, False)
        head = replace(
            self._now,
            token=uuid.uuid4().hex,
            high=dumps(high),
            noted_to=None if noted_to is None else self.relative(noted_to).hex(),
        )
        changes: Pieces = {}
        if entries:
            head = replace(head, newest=head.newest + 1)
            self._note(head.newest, entries)
            changes[_log_name(head.newest)] = _encode(entries)
            await asyncio.sleep(0)  # twenty thousand long keys take a while
        if not head.fold and (len(self._log) >= _FOLD_FROM_LOGS or len(self._keys) >= _FOLD_FROM_KEYS):
            head = replace(head, fold=head.newest, folded_to="")
        if head.fold:
            head = await self._folded(head, changes)
        self._head = head
        changes[_HEAD] = json.dumps(asdict(head)).encode()
        return changes

    @property
    def _now(self) -> Head:
        if self._head is None:
            raise RuntimeError("the known keys were not opened")
        return self._head

    async def _read(self, prefix: str, after: str, limit: int) -> list[tuple[str, bytes]]:
        return await self._memory.read(prefix=prefix, after=after, limit=limit) if self._memory else []

    async def _read_log(self) -> None:
        self._log, self._latest, self._keys = {}, {}, []
        name = _LOG
        while pieces := await self._read(_LOG, name, _LOGS_AT_ONCE):
            for name, piece in pieces:
                self._note(int(name.removeprefix(_LOG)), _decode(piece))

    def _note(self, number: int, entries: dict[bytes, bool]) -> None:
        self._log[number] = entries
        new = sorted(key for key in entries if key not in self._latest)
        self._latest |= entries
        self._keys = sorted([*self._keys, *new])

    async def _blocks(self, start: bytes) -> AsyncGenerator[KeyBlock, None]:
        """Yield the blocks from the one that holds a key on; the last one always, though empty."""
        name, below = _BLOCK + name_above(start), ""
        while pieces := await self._read(_BLOCK, name, _BLOCKS_AT_ONCE):
            for name, piece in pieces:
                block = read_block(below, name.removeprefix(_BLOCK), piece)
                below = block.name
                if block.edge is None or block.edge > start:
                    yield block
                if block.edge is None:
                    return
        yield KeyBlock(below=below, name=LAST, edge=None, kept=b"")

    def _current(self, block: Sequence[bytes], start: bytes, end: bytes | None) -> Sequence[bytes]:
        """Return the keys of a block, from one up to below another, as the log has them now."""
        keys = _part(block, start, end)
        latest = _part(self._keys, start, end)
        if not latest:
            return keys
        there = set(keys)
        there.update(key for key in latest if self._latest[key])
        there.difference_update(key for key in latest if not self._latest[key])
        return sorted(there)

    async def _folded(self, head: Head, changes: Pieces) -> Head:
        """Fold the log into the next blocks; when all are done, drop what has been folded."""
        start, written = bytes.fromhex(head.folded_to), 0
        while rest := _part(self._keys, start, None):
            if written >= _FOLDED_AT_ONCE:
                return replace(head, folded_to=start.hex())
            block = await self._block_of(rest[0])
            written += self._rewrite(block, self._current(block.keys(), start, block.edge), changes)
            if block.edge is None:
                break
            start = block.edge
        self._drop(head.fold, changes)
        return replace(head, fold=0, folded_to="")

    async def _block_of(self, key: bytes) -> KeyBlock:
        async with aclosing(self._blocks(key)) as blocks:
            return await anext(blocks)

    @staticmethod
    def _rewrite(block: KeyBlock, keys: Sequence[bytes], changes: Pieces) -> int:
        """Write a block anew, in several when it has grown; return in how many."""
        *parts, (edge, last) = split_keys(keys, block.edge)
        below = block.below
        waiting: list[bytes] = []
        for upper, part in parts:
            waiting += part
            name = block_name(upper, below=below, above=block.name)
            if name is not None:
                changes[_BLOCK + name] = written_block(name, upper, waiting)
                below, waiting = name, []
        rest = [*waiting, *last]
        changes[_BLOCK + block.name] = written_block(block.name, edge, rest) if rest or edge is None else None
        return len(parts) + 1

    def _drop(self, up_to: int, changes: Pieces) -> None:
        """Drop the entries of the log up to a number: written before, or only about to be."""
        for number in [number for number in self._log if number <= up_to]:
            del self._log[number]
            if changes.pop(_log_name(number), None) is None:
                changes[_log_name(number)] = None
        self._latest = {key: there for number in sorted(self._log) for key, there in self._log[number].items()}
        self._keys = sorted(self._latest)

    def bounds(self, keys: Range) -> tuple[bytes, bytes | None]:
        """Return the first text of a range and the first one behind it; None when there is none."""
        start = self.relative(keys.after) + _NEXT if keys.after else self.relative(keys.prefix)
        if keys.until is not None:
            return start, self.relative(keys.until) + _NEXT
        whole = self.relative(keys.prefix).rstrip(b"\xff")
        return start, whole[:-1] + bytes([whole[-1] + 1]) if whole else None


def _part(keys: Sequence[bytes], start: bytes, end: bytes | None) -> Sequence[bytes]:
    """Return of sorted keys those from one up to below another."""
    return keys[bisect_left(keys, start) : None if end is None else bisect_left(keys, end)]


def _lesser(one: bytes | None, other: bytes | None) -> bytes | None:
    """Return the lesser of two edges, of which None is the end of all keys."""
    return min((each for each in (one, other) if each is not None), default=None)


def _log_name(number: int) -> str:
    return f"{_LOG}{number:012}"


def _encode(entries: Mapping[bytes, bool]) -> bytes:
    added = encode_keys(sorted(key for key, there in entries.items() if there))
    removed = encode_keys(sorted(key for key, there in entries.items() if not there))
    return len(added).to_bytes(4, "big") + added + removed


def _decode(piece: bytes) -> dict[bytes, bool]:
    end = 4 + int.from_bytes(piece[:4], "big")
    return dict.fromkeys(decode_keys(piece[4:end]), True) | dict.fromkeys(decode_keys(piece[end:]), False)
