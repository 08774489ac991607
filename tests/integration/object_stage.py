"""Stores in a bucket of a real S3 server, each in a prefix of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Self
from uuid import uuid4

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.sources.s3_sharing import SharedClients
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from harness.servers import S3Server
from tests.integration.s3_gateway import Gateway, Request
from tests.integration.s3_landing import opened

__all__ = [
    "DAY",
    "KEY",
    "NOTHING",
    "ORDERS",
    "WATCHES",
    "Held",
    "ObjectStage",
    "clients_of",
    "commit",
    "stage_on",
    "through",
    "writes",
]

KEY = WatermarkKey("orders")
ORDERS = Selector("orders")
WATCHES = Watches("table orders", "id")
NOTHING = PollReport()
DAY = 86400.0

_BUCKETS: dict[str, str] = {}


def clients_of(server: S3Server, **given: Any) -> Callable[[], Awaitable[AbstractAsyncContextManager[Any]]]:
    """Return what gives one shared client of a server, as an Airflow connection does."""
    shared = SharedClients()

    async def make() -> AbstractAsyncContextManager[Any]:
        return opened(server, **given)

    async def lease() -> AbstractAsyncContextManager[Any]:
        return shared.lease("client", make)

    return lease


class ObjectStage:
    """A place for a store, and the stores that are open there.

    :ivar client: a client for looking at the objects.
    """

    def __init__(self, server: S3Server, bucket: str, client: Any) -> None:
        self.server = server
        self.client = client
        self.address = ObjectAddress(bucket=bucket, prefix=f"{uuid4().hex[:8]}/", conn_id="stage")
        self._open: list[ObjectStore] = []

    def store(self, *, server: S3Server | None = None, **given: Any) -> ObjectStore:
        """Open a store, as a process of its own does; it closes with the stage."""
        given = {"client": clients_of(server or self.server), **given}
        store = ObjectStore(address=self.address, **given)
        self._open.append(store)
        return store

    async def keys(self, part: str = "") -> list[str]:
        """The names of the objects that are there, without the prefix."""
        found: list[str] = []
        pages = self.client.get_paginator("list_objects_v2")
        async for page in pages.paginate(Bucket=self.address.bucket, Prefix=self.address.prefix):
            found += [each["Key"].removeprefix(self.address.prefix) for each in page.get("Contents", ())]
        return [key for key in found if part in key]

    async def close(self) -> None:
        """Close what is open."""
        await asyncio.gather(*(store.aclose() for store in self._open))


@asynccontextmanager
async def stage_on(server: S3Server) -> AsyncIterator[ObjectStage]:
    """Give a prefix with nothing in it."""
    async with opened(server) as client:
        if server.endpoint not in _BUCKETS:  # a bucket takes volumes of SeaweedFS for itself: one is for all
            bucket = f"store-{uuid4().hex[:12]}"
            await client.create_bucket(Bucket=bucket)
            _BUCKETS[server.endpoint] = bucket
        stage = ObjectStage(server, _BUCKETS[server.endpoint], client)
        yield stage
        await stage.close()


def through(gateway: Gateway, stage: ObjectStage, **given: Any) -> ObjectStore:
    """Open a store whose requests go through the gateway."""
    return stage.store(server=replace(gateway.server, endpoint=gateway.endpoint), **given)


def writes(request: Request, part: str) -> bool:
    """Whether a request writes an object of this kind."""
    return request.method == "PUT" and f"/{part}" in request.target


async def commit(store: ObjectStore, watermark: Watermark) -> Watermark:
    """Commit one batch."""
    number = watermark.version
    new = NewBatch(low=number, high=number + 1, items=[number], count=1)
    moved, _ = await store.commit(watermark, number + 1, [new], NOTHING, {"last": str(number).encode()})
    return moved


class Held:
    """Clients that hold writes of documents back until they are let go."""

    def __init__(self, server: S3Server) -> None:
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        self.holds = False
        self._lease = clients_of(server)

    async def __call__(self) -> Any:
        return _HeldClient(self, await self._lease())


class _HeldClient:
    def __init__(self, held: Held, context: Any) -> None:
        self._held = held
        self._context = context

    async def __aenter__(self) -> Self:
        self._client = await self._context.__aenter__()
        return self

    async def __aexit__(self, *given: object) -> None:
        await self._context.__aexit__(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def put_object(self, **given: Any) -> Any:
        if self._held.holds and "/watermarks/" in given["Key"]:
            self._held.waiting.set()
            await self._held.go.wait()
        return await self._client.put_object(**given)
