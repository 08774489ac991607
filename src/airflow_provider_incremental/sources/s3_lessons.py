"""What a source has learned from its listings, kept with the watermark: it saves work, and may be lost at any time.

It is written along with commits that are made anyway: a split point that moved is no reason to move a watermark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from airflow_provider_incremental.core.source import Memory

__all__ = ["Lesson", "Lessons"]

_PREFIX = "learned/"


class Lesson(Protocol):
    """One thing that was learned."""

    def dump(self) -> bytes:
        """Return what :meth:`load` reads."""

    def load(self, kept: bytes) -> None:
        """Take up what another process has learned."""


class Lessons:
    """All of it, by name."""

    def __init__(self, parts: Mapping[str, Lesson]) -> None:
        self._parts = {_PREFIX + name: part for name, part in parts.items()}
        self._kept = {name: part.dump() for name, part in self._parts.items()}
        self._recalled = False

    async def recall(self, memory: Memory) -> None:
        """Take up what is kept, once."""
        if not self._recalled:
            for name, piece in await memory.read(prefix=_PREFIX):
                if name in self._parts:
                    self._parts[name].load(piece)
                    self._kept[name] = piece
            self._recalled = True

    def changed(self) -> dict[str, bytes | None]:
        """Return what is to be written with the commit that follows."""
        now = {name: part.dump() for name, part in self._parts.items()}
        changed = {name: piece for name, piece in now.items() if piece != self._kept[name]}
        self._kept |= changed
        return dict(changed)
