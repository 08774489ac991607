"""What a store keeps of a source: its pieces, changed with a commit or not at all."""

from __future__ import annotations

from collections.abc import Mapping


class FakeMemory:
    """Named pieces in a dictionary, and how many were read."""

    def __init__(self) -> None:
        self.pieces: dict[str, bytes] = {}
        self.reads = 0

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        """Return pieces in order of their names."""
        self.reads += 1
        names = sorted(name for name in self.pieces if name.startswith(prefix) and name > after)
        return [(name, self.pieces[name]) for name in names[:limit]]

    def change(self, pieces: Mapping[str, bytes | None]) -> None:
        """Write and forget."""
        for name, piece in pieces.items():
            if piece is None:
                self.pieces.pop(name, None)
            else:
                self.pieces[name] = piece
