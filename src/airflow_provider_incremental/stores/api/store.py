"""A store at the other end of an API: a store like any other, for processes that may hold no database credentials."""

from __future__ import annotations

import asyncio
import functools
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from airflow_provider_incremental.core.batch import Claim
from airflow_provider_incremental.core.errors import StoreError, StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.address import Address
from airflow_provider_incremental.stores.api.calls import Answer, Courier
from airflow_provider_incremental.stores.api.connection import AWAY, Connection
from airflow_provider_incremental.stores.api.operations import OPERATIONS, Operation
from airflow_provider_incremental.stores.api.problems import error_of
from airflow_provider_incremental.stores.api.scalars import MalformedError
from airflow_provider_incremental.stores.api.text import BIG, call_text, is_big

__all__ = ["ApiStore", "api_store"]

T = TypeVar("T")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_DONE = 200


class ApiStore:
    """The operations of :class:`core.store.WatermarkStore`, each of them run by a server. It belongs to one event loop.

    An operation is tried for as long as the address says. It has its effect once, although it may be sent several
    times: each call has a key, by which the server knows what it has done already.

    :param url: the API, as ``[incremental] store`` gives it; nothing connects before the first operation.
    :raises ConfigurationError: when the address cannot be used.

    Example::

        store = api_store("api+https://:TOKEN@airflow.example/incremental/api")
        for watermark in await store.list_watermarks():
            print(watermark.key, watermark.cursor)
        await store.aclose()
    """

    def __init__(self, *, url: str) -> None:
        self._address = Address.parse(url)
        self._connection = Connection(address=self._address)
        self._courier = Courier(send=self._connection.send)
        self._identity: str | None = None
        self._random = random.SystemRandom()

    def __repr__(self) -> str:
        """Name the server, without what opens it."""
        return f"<ApiStore {self._address.base}>"

    @property
    def requests(self) -> int:
        """How many requests were sent; there are far fewer than calls when many are made at once."""
        return self._courier.requests

    async def identity(self) -> str:
        """Return the id of the store that the server serves; it is asked for once."""
        if self._identity is None:
            self._identity = str(await self._run(OPERATIONS["identity"]))
        return self._identity

    async def renew(self, claim: Claim, lease: float) -> Claim:
        """Extend a claim to ``lease`` seconds from now; its items stay here."""
        renewed = await self._run(OPERATIONS["renew"], claim, lease)
        return replace(claim, lease_until=renewed.lease_until)

    async def aclose(self) -> None:
        """Give back connections. The store may not be used afterwards."""
        await self._courier.aclose()
        await self._connection.aclose()

    async def _run(self, operation: Operation, *given: Any, **named: Any) -> Any:
        """Run an operation, again and again while the server may only be away for a moment."""
        key = uuid.uuid4().hex if operation.mutates else None
        big = is_big([*given, *named.values()])
        text = await _apart(call_text, operation, self, given, named, key, big=big)
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self._address.timeout, _FIRST_PAUSE
        while True:
            answer = await self._delivered(text, deadline - loop.time())
            if answer.status == _DONE:
                return await self._returned(operation, answer)
            error = error_of(answer.content, self._address.base)
            wait = max(pause * self._random.uniform(0.5, 1.0), answer.retry_after)
            final = answer.status not in AWAY or isinstance(error, StoreNotMigratedError)
            if final or loop.time() + wait >= deadline:
                raise error
            await asyncio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _delivered(self, text: str, seconds: float) -> Answer:
        """Return the answer to a call; a server that cannot be reached is one that is away."""
        try:
            async with asyncio.timeout(seconds):
                return await self._courier.deliver(text)
        except StoreUnavailableError as error:
            return _away(str(error))
        except TimeoutError:
            return _away(f"the store {self._address.base} did not answer in {self._address.timeout:g} s")

    async def _returned(self, operation: Operation, answer: Answer) -> Any:
        try:
            return await _apart(operation.answer.decode, answer.content, "answer", big=answer.size > BIG)
        except MalformedError as error:
            msg = f"the store {self._address.base} answered {operation.name} in a way that is not understood: {error}"
            raise StoreError(msg) from error


def api_store(url: str) -> WatermarkStore:
    """Return the store of an address; :class:`ApiStore` gets its operations from their table, which mypy cannot see."""
    return cast(WatermarkStore, ApiStore(url=url))


def _away(detail: str) -> Answer:
    return Answer(503, {"status": 503, "code": "store-unavailable", "detail": detail})


async def _apart(work: Callable[..., T], *arguments: Any, big: bool) -> T:
    return await asyncio.to_thread(work, *arguments) if big else work(*arguments)


def _method(operation: Operation) -> Any:
    @functools.wraps(getattr(WatermarkStore, operation.name))
    async def run(self: ApiStore, *given: Any, **named: Any) -> Any:
        return await self._run(operation, *given, **named)

    return run


for _each in OPERATIONS.values():
    if _each.name not in vars(ApiStore):
        setattr(ApiStore, _each.name, _method(_each))
