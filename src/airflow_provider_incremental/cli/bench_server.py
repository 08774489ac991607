"""An API server over a database, for as long as a benchmark lasts: a process of its own, as it is when it serves."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from airflow_provider_incremental.core.errors import StoreError

__all__ = ["api_over"]

_PROGRAM = (sys.executable, "-m", "airflow_provider_incremental.cli")
_STARTS_WITHIN = 60.0
_STOPS_WITHIN = 30.0
_LONGEST_SHOWN = 2000


@asynccontextmanager
async def api_over(url: str) -> AsyncGenerator[str, None]:
    """Serve the store of a URL on a free port of this machine; yield the address of the API, with a token for it.

    :raises StoreError: when no server comes up, with its last words.
    """
    with _place() as (tokens, log):
        port = _free_port()
        token = await _new_token(tokens)
        # In its environment, where no other user sees the password; there, Airflow would take a $ for a variable.
        environment = os.environ | {"AIRFLOW__INCREMENTAL__STORE": url.replace("$", "%24")}
        command = (*_PROGRAM, "api-server", "--tokens", str(tokens), "--port", str(port))
        # In a session of its own: an interrupt ends the benchmark, which still has to tidy up with its help.
        server = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=DEVNULL, stderr=log, start_new_session=True
        )
        try:
            await _up(server, port, log)
            yield f"api+http://:{token}@127.0.0.1:{port}"
        finally:
            await _end(server)


@contextmanager
def _place() -> Generator[tuple[Path, IO[bytes]], None, None]:
    """Yield where the server finds its tokens, and the file of its log, which both vanish afterwards."""
    with TemporaryDirectory(prefix="incremental-bench-") as folder, Path(folder, "log").open("w+b") as log:
        yield Path(folder, "tokens.json"), log


async def _new_token(tokens: Path) -> str:
    scopes = [word for scope in ("read", "write", "admin") for word in ("--scope", scope)]
    making = await asyncio.create_subprocess_exec(
        *_PROGRAM, "api-token", str(tokens), "--name", "bench", *scopes, stdout=PIPE
    )
    printed, _ = await making.communicate()
    return printed.decode().strip()


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port: int = place.getsockname()[1]
        return port


async def _up(server: Process, port: int, log: IO[bytes]) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    while server.returncode is None and time.monotonic() < deadline:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.close()
        await writer.wait_closed()
        return
    raise StoreError(f"the API server of the benchmark did not start: {_last_words(log)}")


def _last_words(log: IO[bytes]) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")[-_LONGEST_SHOWN:].strip()


async def _end(server: Process) -> None:
    if server.returncode is not None:
        return
    server.terminate()
    try:
        await asyncio.wait_for(server.wait(), _STOPS_WITHIN)
    except TimeoutError:
        server.kill()
        await server.wait()
