"""A network between a client and a server that a test cuts, hangs and mends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["Proxy", "proxy_to"]


class Proxy:
    """Forwards connections to a server, as long as the test lets it."""

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        """Accept connections and forward what they carry."""
        self._flows.set()
        if self._listening is None:
            self._listening = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._listening.sockets[0].getsockname()[1]

    def hang(self) -> None:
        """Forward nothing any more, in either direction, without a word."""
        self._flows.clear()

    async def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        for writer in list(self._open):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Cut everything and end the tasks."""
        await self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        try:
            await self._flows.wait()
            there, back = await asyncio.open_connection(*self._server)
            self._open.add(back)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, back))
                both.create_task(self._pump(there, writer))
        finally:
            for each in (writer, *([back] if "back" in locals() else [])):
                self._open.discard(each)
                each.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                target.write(data)
                await target.drain()
        target.transport.abort()


@contextlib.asynccontextmanager
async def proxy_to(host: str, port: int) -> AsyncIterator[Proxy]:
    """Forward to a server from a port of one's own until the context ends."""
    proxy = Proxy(host, port)
    await proxy.mend()
    try:
        yield proxy
    finally:
        await proxy.aclose()
