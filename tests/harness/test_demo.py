"""What the demo says while nothing happens, and what a command answers to a name it does not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.databases import PASSWORD
from harness.demo import Patience

ROOT = Path(__file__).parents[2]


def test_a_long_wait_says_what_it_waits_for():
    """Every twenty seconds without news; what became less in the meantime is news."""
    now, missing, told = [0.0], [5], list[str]()
    patience = Patience(lambda: f"{missing[0]} rows", clock=lambda: now[0], tell=told.append)
    condition = patience.with_words(lambda: missing[0] == 0)
    for at, left, said in (
        (19, 5, []),
        (20, 5, ["still waiting for 5 rows"]),
        (39, 5, []),
        (40, 5, ["still waiting for 5 rows"]),
        (59, 3, []),
        (78, 3, []),
        (79, 3, ["still waiting for 3 rows"]),
        (200, 0, []),
    ):
        now[0], missing[0] = at, left
        told.clear()
        assert condition() is (left == 0)
        assert (at, told) == (at, said)


def test_bench_lists_what_it_knows():
    """A name that is no benchmark is answered with those that are."""
    asked = [sys.executable, "dev", "bench", "nope", "--json", "/dev/null"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    for name in ("api", "s3", "sql", "store"):
        assert name in done.stderr.rpartition("nope")[2]
    assert "s3_stub" not in done.stderr


def test_the_password_of_databases_is_no_word():
    """What looks for it in a log must not find something else."""
    assert len(PASSWORD) >= 16
    assert "incremental" not in PASSWORD
