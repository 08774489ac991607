"""Sorted keys as blocks of bytes, and the names of these blocks, which sort as the keys do.

A block holds the keys below its edge, down to the edge of the block before. An edge is the shortest text that tells the
last key of its block from the first one of the next, and names its block; the last block is named behind them all.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

__all__ = ["LAST", "block_name", "decode_keys", "encode_keys", "name_above", "split_keys", "upper_edge"]

LAST = "~"
"""The name behind every other."""

_IN_A_BLOCK = 2048
_NEAR = 128
_LONGEST_NAME = 230  # characters; a store takes 250
_PLAIN, _HEX = b"p", b"h"
# Each byte in printable ASCII, so that texts sort as the bytes do: most are themselves.
_FIRST, _LAST, _LOW, _HIGH = 0x22, 0x7C, "!", "}"
_CHARACTERS = [
    chr(byte) if _FIRST <= byte <= _LAST else f"{_LOW if byte < _FIRST else _HIGH}{byte:02x}" for byte in range(256)
]
_CHARACTER = re.compile(f"[{_LOW}{_HIGH}](..)|(.)")
_BETWEEN = b"\xff"  # in no UTF-8, so in no key but that of a server that keeps other bytes


def encode_keys(keys: Sequence[bytes]) -> bytes:
    """Return sorted keys in about the room of what sets each apart from the one before.

    >>> decode_keys(encode_keys([b"a/1", b"a/2"]))
    [b'a/1', b'a/2']
    """
    joined = _BETWEEN.join(keys)
    form = _PLAIN
    if joined.count(_BETWEEN) != max(len(keys) - 1, 0):
        form, joined = _HEX, b",".join(key.hex().encode() for key in keys)
    return form + len(keys).to_bytes(4, "big") + zlib.compress(joined, 1)


def decode_keys(block: bytes) -> list[bytes]:
    """Return the keys of :func:`encode_keys`."""
    if not int.from_bytes(block[1:5], "big"):
        return []
    joined = zlib.decompress(block[5:])
    if block[:1] == _PLAIN:
        return joined.split(_BETWEEN)
    return [bytes.fromhex(key.decode()) for key in joined.split(b",")]


def block_name(edge: bytes | None) -> str:
    """Return the name of the block of the keys below an edge; None for the last one.

    >>> block_name(b"2026/a b"), block_name(None)
    ('2026/a!20b', '~')
    """
    return LAST if edge is None else "".join(map(_CHARACTERS.__getitem__, edge))


def upper_edge(name: str) -> bytes | None:
    """Return the edge of a block: its keys lie below."""
    if name == LAST:
        return None
    return bytes(int(each[1], 16) if each[1] else ord(each[2]) for each in _CHARACTER.finditer(name))


def name_above(key: bytes) -> str:
    """Return a text behind which the names begin of the blocks that hold a key and greater ones; perhaps one more."""
    return block_name(key)[:_LONGEST_NAME]


def split_keys(keys: Sequence[bytes], edge: bytes | None) -> list[tuple[bytes | None, Sequence[bytes]]]:
    """Return sorted keys in blocks of a handy size, each with its edge; that of the last one is given."""
    parts: list[tuple[bytes | None, Sequence[bytes]]] = []
    start = 0
    while len(keys) - start > 2 * _IN_A_BLOCK:
        at, between = _best_edge(keys, start + _IN_A_BLOCK)
        if len(block_name(between)) > _LONGEST_NAME:  # keys that differ far behind their beginning only: one big block
            break
        parts.append((between, keys[start:at]))
        start = at
    return [*parts, (edge, keys[start:])]


def _best_edge(keys: Sequence[bytes], middle: int) -> tuple[int, bytes]:
    """Return where to cut near a place, and the shortest edge there."""
    around = range(middle - _NEAR, middle + _NEAR)
    at = min(around, key=lambda at: (_common(keys[at - 1], keys[at]), abs(at - middle)))
    return at, keys[at][: _common(keys[at - 1], keys[at]) + 1]


def _common(one: bytes, other: bytes) -> int:
    """Return how many bytes two keys have in common at their beginning."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
