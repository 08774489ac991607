"""What the API's description allows and what it forbids is answered as it says: no 5xx, nothing undocumented."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_incremental.migrations.run import upgrade
from harness.environment import scrub
from harness.processes import free_ports, serving
from tests.served import Tokens

EXAMPLES = 25


@pytest.fixture
def server(postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A server on PostgreSQL in a process of its own, and a token for everything."""
    asyncio.run(upgrade(postgres_database))
    token, (port,) = Tokens(tmp_path).add(), free_ports(1)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    command = [sys.executable, "-m", "airflow_provider_incremental.cli", "api-server", "--store", postgres_database]
    command += ["--tokens", str(tmp_path / "tokens.json"), "--port", str(port)]

    def ready() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with serving("api-server", command, home=tmp_path, ready=ready):
        yield f"http://127.0.0.1:{port}/v1/openapi.json", token


@pytest.mark.timeout(1200)
def test_the_server_keeps_to_its_description(server: tuple[str, str], tmp_path: Path) -> None:
    """All checks of schemathesis on every operation: statuses, content types, bodies, good and bad arguments."""
    url, token = server
    program = Path(sys.executable).with_name("schemathesis")
    environment = dict(os.environ)
    scrub(environment)
    # One worker: before Python 3.11.8, two threads that parse code at once fail (python/cpython#106905).
    command = [program, "run", url, "-H", f"Authorization: Bearer {token}", "--checks", "all", "--workers", "1"]
    command += ["--max-examples", str(EXAMPLES), "--seed", "1", "--continue-on-failure", "--no-color"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-100_000:]
    assert " generated, " in done.stdout
