"""Processes and threads that upgrade one database at the same moment: one does the work, none fails."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

import airflow_provider_incremental
from airflow_provider_incremental.migrations.run import check, upgrade, upgrade_embedded
from airflow_provider_incremental.stores.sql.tables import identity

PROCESSES = 4
THREADS = 4

# Upgrades whatever it is told to, when it is told to, uses it, and answers what the upgrade returned.
_UPGRADER = """
import asyncio, sys
from pathlib import Path
from airflow_provider_incremental.migrations import run, scripts
from airflow_provider_incremental.stores.registry import shared_store

async def use(url):
    async with shared_store(url) as store:
        await store.identity()

print("ready", flush=True)
for line in sys.stdin:
    url = line.strip()
    path = url.removeprefix("sqlite:///")
    done = run.upgrade_embedded(Path(path)) if path.startswith("/") else asyncio.run(run.upgrade(url))
    asyncio.run(use(url))
    print(done, flush=True)
"""


class Crowd:
    """Processes that have loaded everything and wait for a word."""

    def __init__(self, stack: ExitStack) -> None:
        tested = Path(airflow_provider_incremental.__file__).parents[1]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        options["env"] = os.environ | {"PYTHONPATH": str(tested)}
        start = [sys.executable, "-c", _UPGRADER]
        self._processes = [stack.enter_context(subprocess.Popen(start, **options)) for _ in range(PROCESSES)]
        self._answers("ready")

    def upgrade(self, target: str) -> list[str]:
        """Let all of them upgrade at once; what each returned."""
        for process in self._processes:
            process.stdin.write(f"{target}\n")
            process.stdin.flush()
        return self._answers()

    def _answers(self, expected: str = "") -> list[str]:
        answers = [process.stdout.readline().strip() for process in self._processes]
        assert all(answers), "a process died"
        assert not expected or set(answers) == {expected}
        return sorted(answers)


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    with ExitStack() as stack:
        yield Crowd(stack)


def test_processes_make_the_embedded_store(crowd, tmp_path):
    """Of processes that open the embedded default at once, one makes it, and it has one identity; thirty times."""
    for turn in range(30):
        path = tmp_path / str(turn) / "incremental.db"
        assert crowd.upgrade(f"sqlite:///{path}") == ["False"] * (PROCESSES - 1) + ["True"]
        with closing(sqlite3.connect(path)) as database:
            assert database.execute(f"SELECT count(*) FROM {identity.name}").fetchone() == (1,)
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_processes_upgrade_a_server(crowd, database):
    """Of processes that upgrade one database at once, one does the work."""
    assert await asyncio.to_thread(crowd.upgrade, database) == ["False"] * (PROCESSES - 1) + ["True"]
    await check(database)


async def test_threads_wait_for_each_other(database):
    """Of threads that upgrade one database at once, each with a loop of its own, one does the work."""
    barrier, results = threading.Barrier(THREADS), []

    def step() -> None:
        barrier.wait()
        results.append(asyncio.run(upgrade(database)))

    threads = [threading.Thread(target=step) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert sorted(results) == [False] * (THREADS - 1) + [True]
    await check(database)


def test_threads_make_stores_of_their_own(tmp_path):
    """Threads that make different stores at the same moment do not get into each other's."""
    for turn in range(5):
        barrier = threading.Barrier(THREADS)
        paths = [tmp_path / f"{turn}-{number}.db" for number in range(THREADS)]

        def step(path: Path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            upgrade_embedded(path)

        threads = [threading.Thread(target=step, args=(path,), daemon=True) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()
        assert [upgrade_embedded(path) for path in paths] == [False] * THREADS
