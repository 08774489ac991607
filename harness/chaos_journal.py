"""The journal of a chaos run, followed while it is written: every record, and who holds a batch at present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.chaos_dags.chaos_notes import is_alive, records

__all__ = ["OpenJournal"]


class OpenJournal:
    """Reads on from where it was, at every :meth:`follow`."""

    def __init__(self, path: Path) -> None:
        self.records: list[dict[str, Any]] = []
        self._path = path
        self._position = 0
        self._holding: set[str] = set()

    def follow(self) -> list[dict[str, Any]]:
        """Read what is new, and return it."""
        new, self._position = records(self._path, self._position)
        for record in new:
            if record["what"] == "took":
                self._holding.add(record["holder"])
            elif record["what"] in ("left", "ended"):
                self._holding.discard(record["holder"])
        self.records += new
        return new

    def holders(self) -> list[str]:
        """Return the living processes that hold a batch, or have just finished one."""
        self.follow()
        self._holding = {holder for holder in self._holding if is_alive(holder)}
        return sorted(self._holding)

    def processed(self, consumer: str, asset: str) -> set[str]:
        """Return what a consumer has processed of an asset."""
        mine = {"what": "processed", "consumer": consumer, "asset": asset}.items()
        return {item for record in self.records if mine <= record.items() for item in record["items"]}
