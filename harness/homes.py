"""Temporary folders that servers work in; what works in one ends with it, even when the harness itself is killed.

A guard process holds the other end of a pipe of ours. The kernel closes our end however we end, and the guard then
ends and removes whatever we had not removed ourselves.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from harness.processes import family, kill_all

__all__ = ["home", "new_home", "remove_abandoned", "remove_home"]

_PREFIX = "incremental-"
_OWNED = re.compile(rf"{_PREFIX}[a-z0-9]+-(?P<pid>[0-9]+)\.(?P<namespace>[0-9]+)-[^-]+")
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
    prefix = f"{_PREFIX}{kind}-{os.getpid()}.{_namespace()}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within)).resolve()
    _tell(f"+{folder}")
    return folder


def remove_home(folder: Path, *, keep: bool = False) -> None:
    """Remove a folder, or keep its files where somebody wants to read them."""
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    _tell(f"-{folder}")


def remove_abandoned(within: Path | None = None) -> list[Path]:
    """Remove what runs have left of which nothing lives any more, not even their guards; return what that was.

    Only folders of this user's, made by a process that this machine would still show.
    """
    abandoned = []
    for folder in (within or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        owner = _OWNED.fullmatch(folder.name)
        if owner is None or int(owner["namespace"]) != _namespace() or psutil.pid_exists(int(owner["pid"])):
            continue
        with contextlib.suppress(OSError):
            if os.geteuid() in (0, folder.stat().st_uid):
                _clear(folder)
                abandoned.append(folder)
    return abandoned


def _namespace() -> int:
    """Return the number of the world that process ids are of: another container's mean nothing here."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _clear(folder: Path) -> None:
    kill_all(lambda: family(None, folder))
    shutil.rmtree(folder, ignore_errors=True)


def _tell(line: str) -> None:
    # One guard for each process that makes folders: a fork does not own those of its parent.
    guard = _guards.get(os.getpid())
    if guard is None:
        command = [sys.executable, "-m", __name__]
        guard = _guards[os.getpid()] = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, start_new_session=True, cwd=Path(__file__).parents[1]
        )
        atexit.register(_dismiss, os.getpid(), guard)
        remove_abandoned()
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
        _clear(folder)


if __name__ == "__main__":
    _guard(sys.stdin)
