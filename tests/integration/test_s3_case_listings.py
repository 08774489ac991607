"""Faults that others had with ties, late objects and listings under way: each by its number, on real servers."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from airflow_provider_incremental.core.source import Source
from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from harness.servers import S3Server
from tests.integration.s3_gateway import Gateway, Pages, error, gateway_to
from tests.integration.s3_landing import Landing, landing_on, opened
from tests.integration.s3_polls import Polls


@pytest.fixture
async def on_moto(moto_server: S3Server) -> AsyncIterator[Landing]:
    """A bucket whose objects can be given any time."""
    async with landing_on(moto_server) as landing:
        yield landing


@pytest.fixture
async def gateway(server: S3Server) -> AsyncIterator[Gateway]:
    """A gateway to the server of the bucket."""
    async with gateway_to(server) as gateway:
        yield gateway


def ago(seconds: float) -> dt.datetime:
    """A whole second so long ago."""
    return dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=seconds)


async def test_case_05_ties_over_many_batches(landing, request):
    """1,500 objects of one time (on moto; of a few seconds elsewhere), 100 a batch, a restart in between: each once."""
    names = [f"{number:04}" for number in range(1500)]
    await landing.put_all(names)
    if request.node.callspec.params["server"] == "moto_server":
        for name in names:
            landing.date(name, ago(60))
    await Polls(landing).settled()
    polls = Polls(landing, limit=100, keep=True)
    sizes = await polls.until(lambda: len(polls.keys) >= 700)
    await polls.restart()
    sizes += await polls.until(lambda: len(polls.keys) >= 1501)
    await polls.restart()
    assert sizes == [100] * 15 + [1]
    assert sorted(polls.keys) == [*names, "zz-settled"]
    assert len(dumps(polls.low)) < 200


async def test_case_06_older_object_inside_the_window(on_moto):
    """An object that appears later, with an older time, is delivered when it is inside the window."""
    await on_moto.put("x")
    on_moto.date("x", ago(100))
    polls = Polls(on_moto, lateness=3600)
    await polls.until(lambda: polls.keys == ["x"])
    await on_moto.put("y")
    on_moto.date("y", ago(160))
    await polls.until(lambda: polls.keys == ["x", "y"])


async def test_case_06_older_object_outside_the_window(on_moto, caplog):
    """Outside the window it is counted and logged, once, and not delivered."""
    await on_moto.put("x")
    on_moto.date("x", ago(100))
    polls = Polls(on_moto, lateness=30, keep=True)
    await polls.until(lambda: polls.keys == ["x"])
    await polls.poll()
    await on_moto.put("y")
    on_moto.date("y", ago(160))
    for _ in range(3):
        await polls.poll()
    await polls.restart()
    assert (polls.keys, polls.late) == (["x"], 1)
    assert "1 objects appeared later than lateness=30" in caplog.text


async def test_case_07_upload_in_parts_is_dated_when_it_began(landing, request):
    """An upload begun before another object and ended after that was delivered comes too."""
    upload = {"Bucket": landing.bucket, "Key": "big"}
    upload["UploadId"] = (await landing.client.create_multipart_upload(**upload))["UploadId"]
    began = ago(0)
    part = await landing.client.upload_part(**upload, PartNumber=1, Body=b"x" * 1000)
    await landing.put("small")
    polls = Polls(landing)
    await polls.until(lambda: polls.keys == ["small"])
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    await landing.client.complete_multipart_upload(**upload, MultipartUpload=parts)
    if request.node.callspec.params["server"] == "moto_server":
        landing.date("big", began - dt.timedelta(seconds=1))
    await polls.until(lambda: polls.keys == ["small", "big"])


async def test_case_08_listing_that_grows_behind_the_newest(on_moto):
    """The next listing has an object before the one that was the newest: it is delivered."""
    await on_moto.put("b")
    on_moto.date("b", ago(10))
    polls = Polls(on_moto)
    await polls.until(lambda: polls.keys == ["b"])
    await on_moto.put("a")
    on_moto.date("a", ago(11))
    await polls.until(lambda: polls.keys == ["b", "a"])


class Struck(Polls):
    """Polls in pages of one object by the real clock, in the first of which something happens between two pages."""

    def __init__(self, landing: Landing, strike: Callable[[], Awaitable[None]], **arguments: Any) -> None:
        self.strike: Callable[[], Awaitable[None]] | None = strike
        pages = Pages(landing.client, size=1, before=self.before)
        super().__init__(landing, client=pages, monotonic=time.monotonic, **arguments)

    async def before(self, number: int) -> None:
        """Strike before the second page."""
        if number == 2 and self.strike is not None:
            strike, self.strike = self.strike, None
            await strike()

    async def poll(self):
        """Poll, and hold the watermark against the time at which the listing began."""
        began = dt.datetime.now(dt.UTC)
        found = await super().poll()
        assert found.high is None or found.high[0] <= began - dt.timedelta(seconds=1)
        return found


async def test_case_10_object_behind_the_scan(landing):
    """Page 1 is read, an object appears behind it and a newer one before it: both come, with what was there."""

    async def strike() -> None:
        await landing.put("a/new")
        await landing.put("z/2")

    await landing.put("a/old")
    await landing.put("z/1")
    polls = Struck(landing, strike)
    await polls.until(lambda: len(polls.keys) >= 4)
    assert sorted(polls.keys) == ["a/new", "a/old", "z/1", "z/2"]


async def test_case_11_object_rewritten_during_the_poll(landing):
    """A rewritten object moves the watermark not past the start of the listing: one written beside it comes too."""

    async def strike() -> None:
        await landing.put("j")
        await landing.put("k", b"second")

    await landing.put("k", b"first")
    await landing.put("z")
    await Polls(landing, settle=10).until_old("z")  # old enough for a first poll that takes long, too
    polls = Struck(landing, strike)
    await polls.until(lambda: len(polls.keys) >= 4)
    assert sorted(polls.keys) == ["j", "k", "k", "z"]


async def test_case_12_page_that_is_throttled(landing, gateway, request):
    """The newest object is on page 1, page 2 fails: nothing moves, and the older object on page 2 comes."""
    await landing.put("z/older")
    await landing.put("a/newer")
    if request.node.callspec.params["server"] == "moto_server":
        landing.date("z/older", ago(50))
    await Polls(landing).until_old("a/newer")
    gateway.answers = lambda each: error("SlowDown", "503 Slow Down") if each.goes_on else None
    async with opened(landing.server, endpoint_url=gateway.endpoint) as client:

        async def nothing(_: int) -> None:
            """Nothing happens between pages."""

        polls = Polls(landing, client=Pages(client, size=1, before=nothing), lateness=0)
        for _ in range(2):
            with pytest.raises(S3ListingError, match="SlowDown"):
                await polls.poll()
            assert polls.low is None
        gateway.answers = lambda _: None
        await polls.until(lambda: len(polls.keys) >= 2)
    assert sorted(polls.keys) == ["a/newer", "z/older"]


async def test_case_15_and_25_new_object_behind_thousands(landing):
    """2,001 objects, the only new one sorts last: it is found; in the order of keys with two requests at most."""
    await landing.put_all([f"{number:05}" for number in range(2000)])
    await Polls(landing).settled()

    async def nothing(_: int) -> None:
        """Nothing happens between pages."""

    pages = Pages(landing.client, size=1000, before=nothing)

    def by_key(**arguments: Any) -> Source:
        return S3KeyOrderSource(bucket=landing.bucket, reread=1, client=pages, **arguments)

    by_time, in_order = Polls(landing), Polls(landing, make=by_key)
    for polls in (by_time, in_order):
        await polls.start_at_latest()
    await landing.put("zzz")
    await by_time.until(lambda: by_time.keys == ["zzz"])
    pages.count = 0
    await in_order.poll()
    assert in_order.keys == ["zzz"]
    assert pages.count <= 2
