"""Sorted keys as blocks of bytes, and where to cut them: an edge is the shortest text between two keys."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

__all__ = ["decode_keys", "encode_keys", "split_keys"]

_IN_A_BLOCK = 2048
_NEAR = 128
_PLAIN, _HEX = b"p", b"h"
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


def split_keys(keys: Sequence[bytes], edge: bytes | None) -> list[tuple[bytes | None, Sequence[bytes]]]:
    """Return sorted keys in blocks of a handy size, each with its edge; that of the last one is given."""
    parts: list[tuple[bytes | None, Sequence[bytes]]] = []
    start = 0
    while len(keys) - start > 2 * _IN_A_BLOCK:
        at, between = _best_edge(keys, start + _IN_A_BLOCK)
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
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
