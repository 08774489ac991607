"""The app as Airflow's api-server mounts it: every process loads the plugin, and only a request makes the app."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.core.redact import describe

__all__ = ["MountedApp"]

log = logging.getLogger(__name__)

_Message = MutableMapping[str, Any]
_App = Callable[[_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]], Awaitable[None]]


class MountedApp:
    """An ASGI app that is made at the first request.

    :param maker: ``module:function`` that makes the app; in a thread, since it loads what is heavy.
    """

    def __init__(self, maker: str) -> None:
        self._maker = maker
        self._app: _App | None = None
        self._turn = asyncio.Lock()

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """Serve a request; as long as the app cannot be made, say so."""
        try:
            app = await self._made()
        except IncrementalError as error:
            log.warning("the API of watermarks cannot be served: %s", describe(error))
            await _refuse(scope, send)
            return
        await app(scope, receive, send)

    async def _made(self) -> _App:
        async with self._turn:
            if self._app is None:
                self._app = await asyncio.to_thread(self._make)
            return self._app

    def _make(self) -> _App:
        module, _, name = self._maker.partition(":")
        app: _App = getattr(import_module(module), name)()
        return app


async def _refuse(scope: _Message, send: Callable[[_Message], Awaitable[None]]) -> None:
    if scope["type"] != "http":
        return
    problems = import_module("airflow_provider_incremental.stores.api.problems")
    found = problems.problem(
        503, "misconfigured", "the API has no store that it could serve; the server's log says why"
    )
    headers = [(b"content-type", problems.MEDIA_TYPE.encode())]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(found).encode()})
