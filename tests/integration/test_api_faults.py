"""The API server, its network and its database are killed in the middle of 1,000 commits: each is made once."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.watermark import PollReport, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.sql.store import SqlStore
from harness.environment import scrub
from harness.processes import free_ports
from harness.tcp_proxy import proxy_to
from tests.integration.sql_store_stage import WATCHES
from tests.served import Tokens

WATERMARKS = 20
COMMITS = 50
FAULTS = ("server", "network", "database", "network hangs", "database hangs")


class Server:
    """An API server in a process of its own."""

    def __init__(self, store: str, folder: Path) -> None:
        self.tokens = Tokens(folder)
        self.token = self.tokens.add()
        self.port = free_ports(1)[0]
        self._folder = folder
        self._store = store
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        environment = dict(os.environ)
        scrub(environment)
        environment["AIRFLOW_HOME"] = str(self._folder)
        command = [sys.executable, "-m", "airflow_provider_incremental.cli", "api-server", "--store", self._store]
        command += ["--tokens", str(self.tokens.path), "--port", str(self.port)]
        with (self._folder / "log").open("a") as log:
            self._process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=log, stderr=log)
        async with httpx.AsyncClient() as client:
            while self._process.returncode is None:
                try:
                    await client.get(f"http://127.0.0.1:{self.port}/v1/health")
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
                else:
                    return
        pytest.fail((self._folder / "log").read_text())

    async def kill(self) -> None:
        """End it without asking."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


@pytest.fixture
async def server(postgres_database: str, tmp_path: Path) -> AsyncIterator[tuple[Server, object]]:
    """A server whose way to its database can be broken."""
    await upgrade(postgres_database)
    parts = urlsplit(postgres_database)
    async with proxy_to(str(parts.hostname), int(parts.port or 0)) as database:
        there = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{database.port}")
        server = Server(there.geturl(), tmp_path)
        await server.start()
        yield server, database
        await server.kill()


async def break_and_mend(fault: str, server: Server, database, network) -> None:
    """Break one thing for a moment."""
    if fault == "server":
        await server.kill()
        await server.start()
        return
    broken = database if fault.startswith("database") else network
    if fault.endswith("hangs"):
        broken.hang()
        await asyncio.sleep(0.5)
    await broken.cut()
    await broken.mend()


@pytest.mark.timeout(280)
async def test_each_of_a_thousand_commits_is_made_once_whatever_breaks(server, postgres_database):
    """Nobody sees an error, no commit is lost, and none is made twice: versions and batches are counted."""
    server, database = server
    made: collections.Counter[str] = collections.Counter()
    another = asyncio.Event()
    async with proxy_to("127.0.0.1", server.port) as network:
        client = api_store(f"api+http://:{server.token}@127.0.0.1:{network.port}?timeout=120")

        async def commits(name: str) -> None:
            watermark = await client.register(WatermarkKey(name), WATCHES)
            for number in range(1, COMMITS + 1):
                batch = NewBatch(low=number - 1, high=number, items=[number], count=1)
                watermark, [appended] = await client.commit(watermark, number, [batch], PollReport(conflicts=1))
                assert (watermark.version, appended.seq, appended.id) == (number, number, batch.id)
                made["commits"] += 1
                another.set()

        async def faults() -> None:
            while True:
                for fault in FAULTS:
                    before = made["commits"]
                    while made["commits"] < before + 30:
                        another.clear()
                        await another.wait()
                    await break_and_mend(fault, server, database, network)
                    made[fault] += 1

        breaking = asyncio.create_task(faults())
        await asyncio.gather(*[commits(f"asset {number}") for number in range(WATERMARKS)])
        breaking.cancel()
        await asyncio.gather(breaking, return_exceptions=True)
        await client.aclose()
    assert all(made[fault] >= 2 for fault in FAULTS), made
    store = SqlStore(url=postgres_database)
    for number in range(WATERMARKS):
        key = WatermarkKey(f"asset {number}")
        watermark = await store.load(key)
        assert (watermark.version, watermark.last_seq, watermark.status.conflicts) == (COMMITS, COMMITS, COMMITS)
        assert [each.items for each in await store.history(key)] == [[each] for each in range(COMMITS, 0, -1)]
    await store.aclose()
