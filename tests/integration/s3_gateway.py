"""A gateway before a real S3 server: it hands requests on, and answers some of them itself, as AWS would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import parse_qs, urlsplit

from harness.servers import S3Server

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(frozen=True, kw_only=True)
class Request:
    """The head of a request."""

    method: str
    target: str
    headers: Mapping[str, str]

    @property
    def is_listing(self) -> bool:
        """Whether it asks for a page of a listing."""
        return self.method == "GET" and "list-type" in parse_qs(urlsplit(self.target).query)

    @property
    def goes_on(self) -> bool:
        """Whether it asks for a page after the first."""
        return "continuation-token" in parse_qs(urlsplit(self.target).query)


Answer = Callable[[Request], bytes | None]
"""What is said instead of the server; None hands the request on. Empty hangs up."""


def answer(body: str, *, status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    """Return an answer; ``length`` is what it says of its own, where that is not true."""
    data = body.encode()
    fields = {"Date": formatdate(usegmt=True), "Content-Type": "application/xml", "Connection": "close", **headers}
    fields["Content-Length"] = str(len(data) if length is None else length)
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


def error(code: str, status: str, message: str = "no", **headers: str) -> bytes:
    """Return an error as S3 answers it: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html."""
    body = f"{_XML}<Error><Code>{code}</Code><Message>{message}</Message><RequestId>R</RequestId></Error>"
    return answer(body, status=status, **headers)


def page(inner: str, **cut: int) -> bytes:
    """Return a page of a listing that says nothing but this."""
    return answer(f'{_XML}<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}', **cut)


class Gateway:
    """Where requests come in; ``requests`` are those that came."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.requests: list[Request] = []
        self.answers: Answer = lambda _: None
        self.cuts: Callable[[Request], bool] = lambda _: False
        """Whether the server's answer to a request is lost on its way back."""
        self.change: Callable[[bytes], bytes] = lambda request: request
        """What a request is made into, before it is handed on; for servers that check no signatures."""
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def listings(self) -> list[Request]:
        """The pages that were asked for."""
        return [request for request in self.requests if request.is_listing]

    async def open(self) -> None:
        """Accept connections, at the same address every time."""
        self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections, and end those that are there."""
        if self._listener is not None:
            self._listener.close()
            await self._listener.wait_closed()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        with suppress(asyncio.CancelledError):  # asyncio would report it as an error of the callback
            await self._answer(reader, writer)
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            request = _parsed(head)
            self.requests.append(request)
            said = self.answers(request)
            if said is None:
                if request.headers.get("expect") == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await reader.readexactly(int(request.headers.get("content-length", 0)))
                await self._hand_on(head + body, writer, lost=self.cuts(request))
            else:
                writer.write(said)
                await writer.drain()

    async def _hand_on(self, request: bytes, writer: asyncio.StreamWriter, *, lost: bool) -> None:
        address = urlsplit(self.server.endpoint)
        from_server, to_server = await asyncio.open_connection(address.hostname, address.port)
        lines = self.change(request).split(b"\r\n", 1)
        to_server.write(lines[0] + b"\r\nConnection: close\r\n" + lines[1])
        try:
            await to_server.drain()
            while data := await from_server.read(1 << 16):
                if not lost:
                    writer.write(data)
                    await writer.drain()
        finally:
            to_server.close()


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return Request(method=method, target=target, headers={name.lower(): value.strip() for name, value in pairs})


@asynccontextmanager
async def gateway_to(server: S3Server) -> AsyncIterator[Gateway]:
    """Run a gateway to a server."""
    gateway = Gateway(server)
    await gateway.open()
    try:
        yield gateway
    finally:
        await gateway.close()


class Pages:
    """A client whose listings have small pages, with something that happens before each of them.

    :param size: objects a page.
    :param before: what happens before the page of a number, counted over the life of the client.
    """

    def __init__(self, client: object, *, size: int, before: Callable[[int], Awaitable[None]]) -> None:
        self._client = client
        self._size = size
        self._before = before
        self.count = 0

    async def list_objects_v2(self, **arguments: object) -> object:
        """List one page."""
        self.count += 1
        await self._before(self.count)
        return await self._client.list_objects_v2(MaxKeys=self._size, **arguments)
