"""Buckets of one's own on real S3 servers, and feeds over them as a trigger runs them."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from unittest import mock
from uuid import uuid4

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from moto import settings as moto_settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import ThreadedMotoServer

from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.clock import SystemClock
from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.stores.memory import MemoryStore
from harness.servers import S3Server

DEADLINE = 60.0
_SESSION = get_session()  # one, which reads the models of botocore once
KEY = WatermarkKey("objects")


@contextmanager
def moto() -> Iterator[S3Server]:
    """Run moto's server: another S3, which differs in many details."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield S3Server(endpoint=f"http://{host}:{port}")
    finally:
        server.stop()


def opened(server: S3Server, **given: Any) -> Any:
    """Return the context of a client, as the hook of the Airflow connection gives one."""
    login = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key}
    patience = AioConfig(connect_timeout=2, read_timeout=20, retries={"max_attempts": 1})
    arguments = {"endpoint_url": server.endpoint, "region_name": server.region, "config": patience, **login, **given}
    return _SESSION.create_client("s3", **arguments)


@asynccontextmanager
async def landing_on(server: S3Server) -> AsyncIterator[Landing]:
    """Make a bucket."""
    async with opened(server) as client:
        landing = Landing(server, client)
        await client.create_bucket(Bucket=landing.bucket)
        yield landing


class Landing:
    """A bucket that a test writes to, and the watermark that reads it."""

    def __init__(self, server: S3Server, client: Any) -> None:
        self.server = server
        self.client = client
        self.bucket = f"landing-{uuid4().hex[:12]}"
        self.store = MemoryStore()

    async def put(self, key: str, body: bytes = b"x") -> None:
        """Write one object."""
        await self.client.put_object(Bucket=self.bucket, Key=key, Body=body)

    async def put_all(self, keys: list[str]) -> None:
        """Write many objects, some at a time."""
        turn = asyncio.Semaphore(16)

        async def one(key: str) -> None:
            async with turn:
                await self.put(key)

        await asyncio.gather(*map(one, keys))

    def date(self, key: str, moment: dt.datetime) -> None:
        """Give an object on moto's server, which runs in this process, another time of its last modification."""
        for backend in s3_backends[DEFAULT_ACCOUNT_ID].values():
            if self.bucket in backend.buckets:
                backend.buckets[self.bucket].keys[key].last_modified = moment.astimezone(dt.UTC).replace(tzinfo=None)

    @contextmanager
    def checks_permissions(self) -> Iterator[None]:
        """Let moto's server ask IAM about every request."""
        with mock.patch.object(moto_settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0):
            yield

    def source(self, **arguments: Any) -> S3KeySource:
        """Return a source over the bucket, with a client of its own."""

        async def client() -> Any:
            return opened(self.server)

        return S3KeySource(**{"bucket": self.bucket, "client": client, "settle": 1, **arguments})

    async def watch(
        self, until: Callable[[], Awaitable[bool]], *, start: Any = "earliest", limit: int = 1000, **arguments: Any
    ) -> None:
        """Run a feed as a trigger does, until something holds, and stop it as a triggerer does."""
        source = self.source(**arguments)
        pace = {"poll_interval": 0.2, "announce_interval": 0.2, "redeliver_after": 300.0, "confirm_after": None}
        settings = FeedSettings(start=start, limit=limit, **pace)
        feed = Feed(key=KEY, store=self.store, source=source, settings=settings, clock=SystemClock())
        running = asyncio.create_task(_drain(feed))
        try:
            async with asyncio.timeout(DEADLINE):
                while not await until():
                    assert not running.done()
                    await asyncio.sleep(0.05)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await source.aclose()

    async def batches(self) -> list[Batch]:
        """Return every batch that was committed, oldest first."""
        return list(reversed(await self.store.history(KEY, limit=10_000)))

    async def log(self) -> list[Batch]:
        """Return every batch of objects, oldest first."""
        return [batch for batch in await self.batches() if batch.kind == "added"]

    async def removed(self) -> list[dict[str, Any]]:
        """Return what was reported to be gone, in order."""
        return [item for batch in await self.batches() if batch.kind == "removed" for item in batch.items or ()]

    def lost(self, count: int) -> Callable[[], Awaitable[bool]]:
        """Whether so many objects were reported to be gone."""

        async def holds() -> bool:
            return len(await self.removed()) >= count

        return holds

    async def items(self) -> list[dict[str, Any]]:
        """Return what was delivered, in order."""
        return [item for batch in await self.log() for item in batch.items or ()]

    async def keys(self) -> list[str]:
        """Return the keys of what was delivered, in order."""
        return [item["key"] for item in await self.items()]

    def has(self, count: int) -> Callable[[], Awaitable[bool]]:
        """Whether so many objects were delivered."""

        async def holds() -> bool:
            return len(await self.keys()) >= count

        return holds

    async def started(self) -> bool:
        """Whether the start of the watermark is decided."""
        watermark = await self.store.load(KEY)
        return watermark is not None and watermark.started

    async def status(self) -> Any:
        """Return how the last polls went."""
        watermark = await self.store.load(KEY)
        return watermark.status if watermark else None


async def _drain(feed: Feed) -> None:
    async for announcement in feed.announcements():
        await feed.confirm(announcement)
