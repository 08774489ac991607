"""One S3 client per connection in a process, however many sources list through it: it closes with the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["SharedClients"]

MakeClient = Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]


class SharedClients:
    """The clients of this process. Each belongs to the event loop in which it was first asked for."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, _Shared]] = WeakKeyDictionary()

    def lease(self, key: Hashable, make: MakeClient) -> AbstractAsyncContextManager[Any]:
        """Return the context of one use of a client, which is made when it is entered and there is none.

        Leave the context with the error that the client cannot recover from, such as credentials that expired: the next
        lease is of a new client. The other users of the old one keep it until they leave.

        :param key: what tells clients apart: the connection, the region, the configuration.
        :param make: makes the context of a client; called in the event loop that will use it.
        """
        return _Lease(self._clients.setdefault(asyncio.get_running_loop(), {}), key, make)


class _Shared:
    """A client with its users; ``context`` is None until it is open."""

    def __init__(self) -> None:
        self.users = 0
        self.client: Any = None
        self.context: AbstractAsyncContextManager[Any] | None = None
        self.opening = asyncio.Lock()


class _Lease(AbstractAsyncContextManager[Any]):
    def __init__(self, clients: dict[Hashable, _Shared], key: Hashable, make: MakeClient) -> None:
        self._clients = clients
        self._key = key
        self._make = make
        self._shared: _Shared | None = None

    async def __aenter__(self) -> Any:
        shared = self._shared = self._clients.setdefault(self._key, _Shared())
        shared.users += 1
        try:
            async with shared.opening:
                if shared.context is None:
                    context = await self._make()
                    shared.client = await context.__aenter__()
                    shared.context = context
        except BaseException as error:
            with suppress(Exception):  # the error that it could not be opened with says more
                await self._leave(error)
            raise
        return shared.client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        shared, self._shared = self._shared, None
        if shared is None:
            return
        shared.users -= 1
        if (error is not None or shared.users == 0) and self._clients.get(self._key) is shared:
            del self._clients[self._key]
        if shared.users == 0 and shared.context is not None:
            await shared.context.__aexit__(None, None, None)
