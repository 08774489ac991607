"""The names of blocks of known keys, which sort as the keys do, and what stands in a block besides its keys.

A block holds the keys below its edge, down to the edge of the block before. An edge is the shortest text that tells the
last key of its block from the first one of the next, and names its block; the last block is named behind them all. An
edge that is longer than a name may be names it by its beginning and a number between those of its neighbours, and
stands itself in the block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_provider_incremental.sources.s3_known_blocks import decode_keys, encode_keys

__all__ = ["LAST", "KeyBlock", "block_name", "name_above", "read_block", "written_block"]

LAST = "~"
"""The name behind every other."""

_FROM_EDGE = 200  # characters of a name; with its number it has 221, and a store takes 250
_NUMBERED = "~"
_STEP = 2**40  # between numbers, where there is room
_MIDDLE, _DIGITS = 2**79, 20
_BEFORE = 64 * _STEP
# Each byte in printable ASCII, so that texts sort as the bytes do: most are themselves.
_FIRST, _LAST, _LOW, _HIGH = 0x22, 0x7C, "!", "}"
_CHARACTERS = [
    chr(byte) if _FIRST <= byte <= _LAST else f"{_LOW if byte < _FIRST else _HIGH}{byte:02x}" for byte in range(256)
]
_CHARACTER = re.compile(f"[{_LOW}{_HIGH}](..)|(.)")


class KeyBlock:
    """A block as it was read.

    :param below: the name of the one before it, if that is known.
    :param edge: its keys lie below; None for the last one.
    """

    def __init__(self, *, below: str, name: str, edge: bytes | None, kept: bytes) -> None:
        self.below = below
        self.name = name
        self.edge = edge
        self._kept = kept

    def keys(self) -> list[bytes]:
        """Return its keys."""
        return decode_keys(self._kept) if self._kept else []


def read_block(below: str, name: str, piece: bytes) -> KeyBlock:
    """Return the block that is kept under a name."""
    if name == LAST or _NUMBERED not in name:
        return KeyBlock(below=below, name=name, edge=_edge_of(name), kept=piece)
    end = 2 + int.from_bytes(piece[:2], "big")
    return KeyBlock(below=below, name=name, edge=piece[2:end], kept=piece[end:])


def written_block(name: str, edge: bytes | None, keys: Sequence[bytes]) -> bytes:
    """Return what :func:`read_block` reads."""
    own = b"" if edge is None or _NUMBERED not in name else len(edge).to_bytes(2, "big") + edge
    return own + encode_keys(keys)


def block_name(edge: bytes | None, *, below: str = "", above: str = LAST) -> str | None:
    """Return a name for the block of an edge between two others, None when there is no room for one.

    :param edge: None for the last one.

    >>> block_name(b"2026/a b"), block_name(None)
    ('2026/a!20b', '~')
    """
    if edge is None:
        return LAST
    text = _text(edge)
    if len(text) <= _FROM_EDGE:
        return text
    shared = text[:_FROM_EDGE] + _NUMBERED
    low, high = _number(below, shared), _number(above, shared)
    if low is None:
        low = _MIDDLE - _STEP if high is None else max(high - _BEFORE, 0)
    room = _STEP if high is None else min(_STEP, (high - low) // 2)
    return f"{shared}{low + room:0{_DIGITS}x}" if room else None


def name_above(key: bytes) -> str:
    """Return a text behind which the names begin of the blocks that hold a key and greater ones; perhaps others."""
    return _text(key)[:_FROM_EDGE]


def _text(edge: bytes) -> str:
    return "".join(map(_CHARACTERS.__getitem__, edge))


def _edge_of(name: str) -> bytes | None:
    if name == LAST:
        return None
    return bytes(int(each[1], 16) if each[1] else ord(each[2]) for each in _CHARACTER.finditer(name))


def _number(name: str, shared: str) -> int | None:
    return int(name.removeprefix(shared), 16) if name.startswith(shared) else None
