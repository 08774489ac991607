"""What can go wrong with a listing, as AWS answers it: its own status, back-off and recovery, and nothing is moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from aiobotocore.config import AioConfig

from airflow_provider_incremental.core.order import Feed
from airflow_provider_incremental.core.pace import FeedSettings
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from harness.servers import S3Server
from tests.integration.s3_gateway import Answer, Gateway, Request, error, gateway_to, page
from tests.integration.s3_landing import DEADLINE, moto, opened

KEY = WatermarkKey("objects")
OBJECTS = 3  # one more than a page
PAGE = b"list-type=2&max-keys=2"
INTERVAL = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server that does not check signatures, so that a gateway may change what is asked for."""
    with moto() as server:
        yield server


@pytest.fixture(scope="module")
def bucket(server: S3Server) -> str:
    """A bucket of two pages."""
    name, client = f"landing-{uuid4().hex[:12]}", server.client()
    client.create_bucket(Bucket=name)
    for number in range(OBJECTS):
        client.put_object(Bucket=name, Key=f"in/{number}")
    return name


@pytest.fixture
async def gateway(server: S3Server) -> AsyncIterator[Gateway]:
    """A gateway to it."""
    async with gateway_to(server) as gateway:
        gateway.change = lambda request: request.replace(b"list-type=2", PAGE)
        yield gateway


class RestingClock(FakeClock):
    """A clock that knows whether somebody sleeps on it."""

    def __init__(self) -> None:
        super().__init__()
        self.rests = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Sleep, and say so."""
        self.rests.set()
        try:
            await super().sleep(seconds)
        finally:
            self.rests.clear()


class Watch:
    """A feed over the gateway, whose time passes when a test says so."""

    def __init__(self, gateway: Gateway, bucket: str) -> None:
        self.gateway = gateway
        self.bucket = bucket
        self.store = MemoryStore()
        self.clock = RestingClock()
        self.s3 = gateway.server.client()
        self.source = S3KeySource(bucket=bucket, prefix="in/", settle=1, client=self.client, conn_id="my_aws")
        pace = {"announce_interval": INTERVAL, "redeliver_after": 9e5, "confirm_after": None}
        settings = FeedSettings(start="earliest", limit=5000, poll_interval=INTERVAL, **pace)
        self.feed = Feed(key=KEY, store=self.store, source=self.source, settings=settings, clock=self.clock)

    async def client(self) -> Any:
        """Make a client that asks once."""
        config = AioConfig(connect_timeout=2, read_timeout=20, retries={"total_max_attempts": 1})
        return opened(self.gateway.server, endpoint_url=self.gateway.endpoint, config=config)

    async def watermark(self) -> Watermark:
        """The watermark with its status."""
        watermark = await self.store.load(KEY)
        assert watermark is not None
        return watermark

    async def keys(self) -> list[str]:
        """The keys that were delivered."""
        return [item["key"] for batch in await self.store.history(KEY) for item in batch.items or ()]

    async def delivered(self) -> bool:
        """Whether everything was delivered, once."""
        there = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="in/")["Contents"]
        keys = await self.keys()
        assert len(keys) == len(set(keys))
        return len(keys) == len(there)

    async def failed_five_times(self) -> bool:
        """Whether five polls in a row have failed."""
        return (await self.watermark()).status.failures >= 5

    async def is_well(self) -> bool:
        """Whether the last poll went well."""
        return (await self.watermark()).status.last_error is None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Callable[[Callable[[], Any]], Any]]:
        """Run the feed, and hand over what lets time pass until something holds."""
        task = asyncio.create_task(self._drain())

        async def until(holds: Callable[[], Any]) -> None:
            async with asyncio.timeout(DEADLINE):
                await self._rests()
                while not await holds():
                    assert not task.done()
                    self.clock.advance(20.0)
                    await asyncio.sleep(0)
                    await self._rests()

        try:
            yield until
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self.source.aclose()

    async def _rests(self) -> None:
        """Wait until it sleeps, and not beside a poll, which takes the real network's time."""
        await self.clock.rests.wait()
        while self.feed._polls.under_way:
            await asyncio.sleep(0.001)

    async def _drain(self) -> None:
        async for announcement in self.feed.announcements():
            await self.feed.confirm(announcement)


REGION = {"x_amz_bucket_region": "eu-central-1"}
EMPTY_END = "<IsTruncated>true</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>"
NO_TRUTH = "<KeyCount>0</KeyCount></ListBucketResult>"
FAULTS: dict[str, tuple[Answer, list[str]]] = {
    "denied": (lambda _: error("AccessDenied", "403 Forbidden"), ["AccessDenied (HTTP 403)", "s3:ListBucket"]),
    "no bucket": (lambda _: error("NoSuchBucket", "404 Not Found"), ["NoSuchBucket (HTTP 404)", "bucket's name"]),
    "wrong region": (
        lambda _: error("PermanentRedirect", "301 Moved Permanently", **REGION),
        ["PermanentRedirect (HTTP 301)", "eu-central-1"],
    ),
    "wrong region of the signature": (
        lambda _: error("AuthorizationHeaderMalformed", "400 Bad Request", **REGION),
        ["AuthorizationHeaderMalformed (HTTP 400)", "eu-central-1"],
    ),
    "slow down": (lambda _: error("SlowDown", "503 Slow Down"), ["SlowDown (HTTP 503)", "patience"]),
    "expired token": (lambda _: error("ExpiredToken", "400 Bad Request"), ["ExpiredToken (HTTP 400)", "renew them"]),
    "hung up": (lambda _: b"", ["closed before we received", "cut short"]),
    "torn": (lambda _: page("<IsTruncated>false</IsTruncated>", length=5000), ["cut short"]),
    "no XML": (lambda _: page("<IsTruncated>fal"), ["no answer of S3's", "check endpoint_url"]),
    "truncated without token": (lambda _: page(EMPTY_END), ["truncated, but has no NextContinuationToken"]),
    "no end": (lambda _: page(NO_TRUTH), ["does not say whether it is complete"]),
}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("fault", FAULTS)
async def test_fault_is_shown_backed_off_from_and_survived(gateway, bucket, fault, number):
    """On either page: not "nothing new"; the status says what it is, polls come ever later, then all is well."""
    said, parts = FAULTS[fault]
    watch = Watch(gateway, bucket)
    failed_at: list[float] = []

    def strike(request: Request) -> bytes | None:
        if not request.is_listing or request.goes_on != (number == 2):
            return None
        failed_at.append(watch.clock.monotonic())
        return said(request)

    async with watch.running() as until:
        await until(watch.delivered)
        before = await watch.watermark()
        watch.s3.put_object(Bucket=bucket, Key=f"in/{fault}-{number}")
        gateway.answers = strike
        await until(watch.failed_five_times)
        during = await watch.watermark()
        assert (during.cursor, during.version, during.last_seq) == (before.cursor, before.version, before.last_seq)
        assert all(part in during.status.last_error for part in parts), during.status.last_error
        gaps = [later - sooner for sooner, later in pairwise(failed_at) if later > sooner]
        assert gaps == [60, 120, 240, 300]
        gateway.answers = lambda _: None
        await until(watch.delivered)
    after = await watch.watermark()
    assert (after.status.failures, after.status.last_error) == (0, None)


async def test_empty_page_with_a_token(gateway, bucket):
    """A page with nothing on it but a token is not the end: the listing goes on behind it."""
    watch = Watch(gateway, bucket)
    asked = 0

    def begin_with_nothing(request: Request) -> bytes | None:
        nonlocal asked
        if request.is_listing and asked < 3:
            asked += 1
            return page(
                "<IsTruncated>true</IsTruncated><KeyCount>0</KeyCount>"
                f"<NextContinuationToken>empty-{asked}</NextContinuationToken></ListBucketResult>"
            )
        return None

    gateway.answers = begin_with_nothing
    gateway.change = lambda request: request.replace(b"&continuation-token=empty-3", b"").replace(b"list-type=2", PAGE)
    async with watch.running() as until:
        await until(watch.delivered)
        assert (await watch.watermark()).status.last_error is None
    assert asked == 3
    assert "empty-2" in gateway.listings[2].target


async def test_connection_refused(gateway, bucket):
    """A server that is not there is the network's trouble; when it is back, its objects come."""
    watch = Watch(gateway, bucket)
    async with watch.running() as until:
        await until(watch.delivered)
        before = await watch.watermark()
        await gateway.close()
        await until(watch.failed_five_times)
        during = await watch.watermark()
        assert (during.cursor, during.version) == (before.cursor, before.version)
        assert "nothing was answered: check endpoint_url" in during.status.last_error
        await gateway.open()
        await until(watch.is_well)
    assert (await watch.watermark()).status.failures == 0
