"""What sources remember: pieces in immutable objects, each with an index of all that are valid when it is written.

A commit that changes pieces writes one new object, with these pieces and the index; the pieces that stay are found
where they are. Objects that hold little that is valid are written anew on the way, so that there are few, and none is
mostly waste. Which index counts, the document says: it changes with the commit, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_incremental.core.source import Pieces
from airflow_provider_incremental.stores.objects.bucket import Bucket
from airflow_provider_incremental.stores.objects.codec import packed, unpacked
from airflow_provider_incremental.stores.objects.document import MemoryPlace, new_token

__all__ = ["Blob", "Index", "Memories", "to_rewrite"]

_SELF = ""


@dataclass(frozen=True, slots=True)
class Blob:
    """An object with pieces: where they begin in it, and how many bytes they had when it was written."""

    start: int
    size: int


@dataclass(slots=True)
class Index:
    """Where each piece is: in which object, from where on, and how long it is."""

    pieces: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    blobs: dict[str, Blob] = field(default_factory=dict)

    def valid(self, blob: str) -> int:
        """Return how many bytes of an object are of pieces that are valid."""
        return sum(size for name, _, size in self.pieces.values() if name == blob)


def to_rewrite(blobs: Mapping[str, tuple[int, int]], new: int) -> list[str]:
    """Return which objects to write anew together with so many new bytes.

    Those of which less than half is valid, and those that are no bigger than what is written by then: so the objects
    that stay grow from one to the next, and are few.

    :param blobs: the valid bytes and the size of each.

    >>> to_rewrite({"a": (100, 100), "b": (10, 10), "c": (30, 100)}, new=12)
    ['b', 'c']
    """
    chosen = []
    for name, (valid, size) in sorted(blobs.items(), key=lambda each: each[1]):
        if 2 * valid < size or valid <= new:
            chosen.append(name)
            new += valid
    return chosen


class Memories:
    """The memories of sources in a bucket."""

    def __init__(self, *, bucket: Bucket) -> None:
        self._bucket = bucket
        self._known: tuple[str, Index] | None = None

    async def read(
        self, folder: str, place: MemoryPlace | None, prefix: str, after: str, limit: int
    ) -> list[tuple[str, bytes]]:
        """Return pieces by name.

        :raises MissingObjectError: when an object is not there any more.
        """
        index = await self.index(folder, place)
        names = sorted(name for name in index.pieces if name.startswith(prefix) and name > after)[:limit]
        found = await self._read(folder, index, names)
        return [(name, found[name]) for name in names]

    async def pick(self, folder: str, place: MemoryPlace | None, names: list[str]) -> dict[str, bytes]:
        """Return these pieces."""
        return await self._read(folder, await self.index(folder, place), names)

    async def index(self, folder: str, place: MemoryPlace | None) -> Index:
        """Return where the pieces are. The last index that was read is kept: it never changes."""
        if place is None:
            return Index()
        if self._known is None or self._known[0] != folder + place.name:
            body = await self._bucket.read_part(folder + place.name, 0, place.index_size)
            self._known = folder + place.name, _read_index(body, place)
        return self._known[1]

    async def change(
        self, folder: str, place: MemoryPlace | None, changes: Pieces
    ) -> tuple[MemoryPlace | None, list[str]]:
        """Write what changes.

        :return: where the memory is then, and the objects that it does not need any more.
        """
        before = await self.index(folder, place)
        stays = {name: where for name, where in before.pieces.items() if name not in changes}
        left = Index(stays, before.blobs)
        new = {name: bytes(piece) for name, piece in changes.items() if piece is not None}
        sizes = {name: (left.valid(name), blob.size) for name, blob in before.blobs.items()}
        rewritten = to_rewrite(sizes, sum(map(len, new.values())))
        new |= await self._read(folder, left, [name for name, (blob, _, _) in stays.items() if blob in rewritten])
        kept = {name: blob for name, blob in before.blobs.items() if name not in rewritten}
        trash = sorted((before.blobs.keys() | ({place.name} if place else set())) - kept.keys())
        after = await self._written(folder, Index(stays, kept), new) if new or stays else None
        return after, trash

    async def _written(self, folder: str, index: Index, new: dict[str, bytes]) -> MemoryPlace:
        data = bytearray()
        for name in sorted(new):
            index.pieces[name] = (_SELF, len(data), len(new[name]))
            data += new[name]
        blobs = {name: [blob.start, blob.size] for name, blob in index.blobs.items()}
        head = packed(json.dumps([index.pieces, blobs, len(data)], separators=(",", ":")))
        place = MemoryPlace(f"m-{new_token()}", len(head))
        await self._bucket.create(folder + place.name, head + bytes(data))
        return place

    async def _read(self, folder: str, index: Index, names: list[str]) -> dict[str, bytes]:
        """Read pieces, those of one object at once: neighbours by name are neighbours there."""
        found: dict[str, bytes] = {}
        for blob in sorted({index.pieces[name][0] for name in names}):
            spans = {name: index.pieces[name][1:] for name in names if index.pieces[name][0] == blob}
            first = min(start for start, _ in spans.values())
            size = max(start + length for start, length in spans.values()) - first
            data = await self._bucket.read_part(folder + blob, index.blobs[blob].start + first, size)
            found |= {name: data[start - first : start - first + length] for name, (start, length) in spans.items()}
        return found


def _read_index(body: bytes, place: MemoryPlace) -> Index:
    pieces, blobs, size = json.loads(unpacked(body))
    index = Index({}, {name: Blob(*blob) for name, blob in blobs.items()})
    for name, (blob, start, length) in pieces.items():
        index.pieces[name] = (blob or place.name, start, length)
        if blob == _SELF:
            index.blobs[place.name] = Blob(place.index_size, size)
    return index
