"""A network between clients and a server that is cut, slowed, hung and mended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

__all__ = ["Network", "Proxy", "network_to", "proxy_to"]


class Proxy:
    """Forwards connections to a server, as long as its owner lets it.

    :ivar delay: seconds that every piece of data takes longer, in either direction.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listening: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay = 0.0
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
        if (task := asyncio.current_task()) is None:
            raise RuntimeError("a connection is accepted in a task")
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
        except ConnectionError:
            return  # the server is down: the client sees its connection reset
        finally:
            for each in (writer, *([back] if "back" in locals() else [])):
                self._open.discard(each)
                each.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                await asyncio.sleep(self.delay)
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


class Network:
    """A proxy with an event loop and a thread of its own, for code without one."""

    def __init__(self, host: str, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"network to {port}", daemon=True)
        self._thread.start()
        self._proxy = Proxy(host, port)
        self.mend()
        self.port = self._proxy.port

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        self._run(self._proxy.cut())

    def hang(self) -> None:
        """Forward nothing any more, without a word."""
        self._loop.call_soon_threadsafe(self._proxy.hang)

    def slow(self, seconds: float) -> None:
        """Let every piece of data take so much longer."""
        self._proxy.delay = seconds

    def mend(self) -> None:
        """Forward everything again, at once."""
        self._proxy.delay = 0.0
        self._run(self._proxy.mend())

    def close(self) -> None:
        """Cut everything, and end the thread."""
        self._run(self._proxy.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()


@contextlib.contextmanager
def network_to(host: str, port: int) -> Iterator[Network]:
    """Forward to a server from a port of one's own until the context ends."""
    network = Network(host, port)
    try:
        yield network
    finally:
        network.close()
