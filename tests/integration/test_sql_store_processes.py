"""The store in several processes at once: a triggerer and tasks on one SQLite file, and a process that forks."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.sql.store import SqlStore

WORKER = Path(__file__).with_name("sql_store_worker.py")
OpenStore = Callable[..., SqlStore]
COUNT = 60


async def run(url: str, *arguments: object) -> Any:
    """Run a worker process to its end, and return what it printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [str(argument) for argument in (WORKER, url, *arguments)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe, env=environment)
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(out)


async def test_many_processes_on_one_sqlite_file(sqlite: str, opened: OpenStore) -> None:
    """Two writers and three readers, each a process, on a file that none has opened before: all of it, once."""
    path = sqlite.removeprefix("sqlite:///")
    with sqlite3.connect(path) as plain:  # as a database that was never in WAL mode
        assert plain.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
    plain.close()
    writes = [run(sqlite, "write", COUNT) for _ in range(2)]
    reads = [run(sqlite, "read", COUNT) for _ in range(3)]
    done = await asyncio.gather(*writes, *reads)
    numbers = list(range(1, COUNT + 1))
    assert sorted(done[0] + done[1]) == numbers
    assert sorted(done[2] + done[3] + done[4]) == numbers
    log = await opened(sqlite).history(WatermarkKey("orders"), limit=1000)
    assert [batch.items for batch in reversed(log)] == [[number] for number in numbers]


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
async def test_a_fork_leaves_the_parents_connections_alone(database: str) -> None:
    """A child gets a store of its own from the registry, and the parent's goes on working."""
    assert await run(database, "fork") == [False, 1, 1]
