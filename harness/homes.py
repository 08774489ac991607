"""Temporary folders that servers work in; what works in one ends with it, even when the harness itself is killed.

A guard process holds the other end of a pipe of ours. The kernel closes our end however we end, and the guard then
ends and removes whatever we had not removed ourselves.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.processes import family, kill_all

__all__ = ["home", "new_home", "remove_home"]

_guards: dict[int, subprocess.Popen[str]] = {}


@contextlib.contextmanager
def home(kind: str, *, within: Path | None = None) -> Iterator[Path]:
    """Give a new folder and remove it when the context ends."""
    folder = new_home(kind, within=within)
    try:
        yield folder
    finally:
        remove_home(folder)


def new_home(kind: str, *, within: Path | None = None) -> Path:
    """Make a folder for a server of this kind; it must be given to :func:`remove_home` at the end."""
    folder = Path(tempfile.mkdtemp(prefix=f"incremental-{kind}-", dir=within)).resolve()
    _tell(f"+{folder}")
    return folder


def remove_home(folder: Path, *, keep: bool = False) -> None:
    """Remove a folder, or keep its files where somebody wants to read them."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    _tell(f"-{folder}")


def _tell(line: str) -> None:
    # One guard for each process that makes folders: a fork does not own those of its parent.
    guard = _guards.get(os.getpid())
    if guard is None:
        command = [sys.executable, "-m", __name__]
        guard = _guards[os.getpid()] = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, start_new_session=True, cwd=Path(__file__).parents[1]
        )
        atexit.register(_dismiss, os.getpid(), guard)
    if guard.stdin is not None:
        guard.stdin.write(f"{line}\n")
        guard.stdin.flush()


def _dismiss(owner: int, guard: subprocess.Popen[str]) -> None:
    if owner == os.getpid():
        guard.communicate()


def _guard(lines: Iterable[str]) -> None:
    """Follow which folders there are, until the process that made them has ended."""
    folders: set[Path] = set()
    for line in lines:
        sign, folder = line[0], Path(line[1:].rstrip("\n"))
        (folders.add if sign == "+" else folders.discard)(folder)
    for folder in folders:
        kill_all(lambda folder=folder: family(None, folder))
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _guard(sys.stdin)
