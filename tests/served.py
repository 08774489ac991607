"""A server of the API in the event loop of a test, and what its callers show."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.limits import Limits
from airflow_provider_incremental.web.api.tokens import TokenAuth, entry_of, new_token

__all__ = ["Tokens", "body_of", "listening", "serving"]


async def body_of(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bytes:
    """Return the whole body of a request that an app was called with."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


class Tokens:
    """A file of tokens."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tokens.json"
        self._entries: list[dict[str, object]] = []

    def add(self, name: str = "everything", scopes: Sequence[str] = ("read", "write", "admin"), **more: object) -> str:
        """Add a token, and return it."""
        token = new_token()
        self._entries.append(entry_of(token, name, list(scopes), **more))
        self._write()
        return token

    def remove(self, name: str) -> None:
        """Take the tokens of a name out."""
        self._entries = [entry for entry in self._entries if entry["name"] != name]
        self._write()

    def _write(self) -> None:
        self.path.write_text(json.dumps({"tokens": self._entries}))


@dataclass(frozen=True)
class Served:
    """A server that runs.

    :param base: its address, for plain requests.
    :param url: its address as a store, with a token for everything.
    """

    base: str
    url: str
    tokens: Tokens


@contextlib.asynccontextmanager
async def listening(app: object, port: int = 0, **options: object) -> AsyncIterator[int]:
    """Serve an app at a port of this machine for as long as the block lasts."""
    # Of TCP by name: only then asyncio sends an answer's parts at once, and does not wait for the client in between.
    place = socket.socket(proto=socket.IPPROTO_TCP)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", port))
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1, **options)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    running = asyncio.create_task(server.serve(sockets=[place]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    try:
        yield place.getsockname()[1]
    finally:
        server.should_exit = True
        await running
        place.close()


@contextlib.asynccontextmanager
async def serving(
    store: WatermarkStore,
    folder: Path,
    *,
    limits: Limits | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Served]:
    """Serve a store for as long as the block lasts."""
    tokens = Tokens(folder)
    token = tokens.add(vouches=True)
    app = create_app(store, TokenAuth(path=tokens.path, clock=clock), limits=limits, clock=clock)
    async with listening(app) as port:
        yield Served(f"http://127.0.0.1:{port}", f"api+http://:{token}@127.0.0.1:{port}", tokens)
