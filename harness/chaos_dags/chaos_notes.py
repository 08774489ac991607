"""What the consumers of a chaos run note down, in a file that no fault touches: one line, one write, one fsync.

A line that a kill cuts off is no line: the reader passes it over, as the holder had not finished what it says.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

__all__ = ["Journal", "is_alive", "is_refused", "name_of", "records"]

JOURNAL = "CHAOS_JOURNAL"


class Journal:
    """Notes of one consumer in one process."""

    def __init__(self, consumer: str, asset: str) -> None:
        self._path = Path(os.environ[JOURNAL])
        self._who = {"consumer": consumer, "asset": asset, "holder": _holder(os.getpid())}

    def took(self, batch: Any) -> None:
        """A batch was claimed. The kernel knows exactly whether who had it before is alive."""
        others = [] if batch.attempt == 1 else self._earlier_holders(batch.id)
        self._note("took", batch, others={holder: is_alive(holder) for holder in others})

    def processed(self, batch: Any, items: list[str]) -> None:
        """The items of a batch are processed: this line is what counts."""
        self._note("processed", batch, items=items)

    def acknowledged(self, batch: Any) -> None:
        """The store has taken the acknowledgement."""
        self._note("acknowledged", batch)

    def ended(self, batch: Any, error: BaseException) -> None:
        """The body, or the acknowledgement, raised."""
        self._note("ended", batch, error=type(error).__name__)

    def left(self) -> None:
        """The task has come to its end: it holds nothing any more."""
        self._write({"what": "left"})

    def _note(self, what: str, batch: Any, **more: Any) -> None:
        self._write({"what": what, "batch": batch.id, "seq": batch.seq, "attempt": batch.attempt, **more})

    def _write(self, fields: dict[str, Any]) -> None:
        # A line break in front ends what a kill may have cut off.
        line = f"\n{json.dumps({'at': time.time(), **self._who, **fields})}\n".encode()
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, line)
            os.fsync(file)
        finally:
            os.close(file)

    def _earlier_holders(self, batch_id: str) -> set[str]:
        known, _ = records(self._path, 0)
        return {
            record["holder"]
            for record in known
            if record.get("batch") == batch_id and record["consumer"] == self._who["consumer"]
        }


def records(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """Return what was noted from a position on, and the position behind it."""
    if not path.exists():
        return [], start
    with path.open("rb") as file:
        file.seek(start)
        data = file.read()
    whole = data.rfind(b"\n") + 1
    return [record for record in map(_parsed, data[:whole].split(b"\n")) if record], start + whole


def name_of(item: dict[str, Any]) -> str:
    """Return what an item is known by: the thing, and which version of it."""
    return f"{item['key']} {item['etag'].strip(chr(34))}" if "etag" in item else f"{item['id']} {item['revision']}"


def is_refused(name: str) -> bool:
    """Whether the consumer that fails can never process an item: every 1009th row, whatever its revision."""
    number = name.partition(" ")[0]
    return number.isdecimal() and int(number) % 1009 == 0


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return dict(json.loads(line))
    except ValueError:
        return None


def _holder(pid: int) -> str:
    return f"{pid}.{_started(pid)}"


def is_alive(holder: str) -> bool:
    """Whether the process that noted under this name is alive."""
    pid = int(holder.partition(".")[0])
    return holder == _holder(pid)


def _started(pid: int) -> str:
    """Return when a process was started, in the kernel's ticks: with its number, that names it for ever."""
    try:
        _, _, fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    state, *others = fields.split()
    return "gone" if state in ("Z", "X") else others[18]
