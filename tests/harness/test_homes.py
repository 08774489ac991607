"""Folders of runs that were killed with their guards are removed by the next run; all others stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.homes import home, new_home, remove_abandoned, remove_home

ROOT = Path(__file__).parents[2]


def test_a_folder_of_a_run_that_is_gone_is_removed(tmp_path):
    """Killed together with its guard, a run leaves its folder; the name says whose it was."""
    make = (
        "import os, pathlib, sys; from harness import homes\n"
        f"folder = homes.new_home('dead', within=pathlib.Path({str(tmp_path)!r})); (folder / 'data').touch()\n"
        "[guard.kill() for guard in homes._guards.values()]; os.kill(os.getpid(), 9)"
    )
    dead = subprocess.run([sys.executable, "-c", make], cwd=ROOT, check=False)
    assert dead.returncode == -9
    (left,) = tmp_path.glob("incremental-dead-*")
    assert remove_abandoned(tmp_path) == [left]
    assert not left.exists()


def test_what_is_somebody_elses_stays(tmp_path):
    """A run that lives, a folder of another world's process, and what only begins with the same word."""
    alive = new_home("alive", within=tmp_path)
    another_world = alive.with_name(f"incremental-other-{_no_process()}.1-abc")
    for folder in (another_world, tmp_path / "incremental-notes", tmp_path / f"incremental-x-{_no_process()}-abc"):
        folder.mkdir()
    before = set(tmp_path.iterdir())
    assert remove_abandoned(tmp_path) == []
    assert set(tmp_path.iterdir()) == before
    remove_home(alive)


def test_a_folder_is_gone_when_its_context_ends(tmp_path):
    """It bears the number of the process that made it."""
    with home("short", within=tmp_path) as folder:
        assert f"-{os.getpid()}." in folder.name
    assert not folder.exists()


def _no_process() -> int:
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid
