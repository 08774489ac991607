"""Object storage that loses answers, asks for patience, refuses, or has no conditions: nothing lost, nothing twice."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.testing.fakes import FakeClock
from harness.servers import S3Server
from tests.integration.object_stage import (
    DAY,
    KEY,
    NOTHING,
    ORDERS,
    WATCHES,
    ObjectStage,
    commit,
    stage_on,
    through,
    writes,
)
from tests.integration.s3_gateway import Gateway, Request, error, gateway_to
from tests.integration.s3_landing import opened


@pytest.fixture
async def stage(s3_server: S3Server) -> AsyncIterator[ObjectStage]:
    """A place in a bucket."""
    async with stage_on(s3_server) as stage:
        stage.address = replace(stage.address, timeout=10)
        yield stage


@pytest.fixture
async def gateway(s3_server: S3Server) -> AsyncIterator[Gateway]:
    """A gateway to its server."""
    async with gateway_to(s3_server) as gateway:
        yield gateway


@pytest.mark.parametrize("part", ["watermarks/", "data/", ""])
async def test_a_write_whose_answer_is_lost_counts_once(gateway: Gateway, stage: ObjectStage, part: str):
    """Whatever it wrote, the operation answers as if nothing had happened."""
    store = through(gateway, stage)
    watermark = await store.register(KEY, WATCHES)
    lost: list[str] = []
    gateway.cuts = lambda request: (
        writes(request, part) and not (lost and lost[-1] == request.target) and _note(lost, request)
    )
    moved = await commit(store, watermark)
    assert lost
    assert (moved.version, moved.last_seq) == (1, 1)
    await store.subscribe(ORDERS, "load", "earliest")
    claim = await store.claim(ORDERS, "load", "worker", 60)
    assert claim is not None
    assert claim.attempt == 1
    await store.acknowledge(claim)
    gateway.cuts = lambda _: False
    assert [batch.seq for batch in await stage.store().history(KEY)] == [1]
    assert (await stage.store().load(KEY)) == await store.load(KEY)


def _note(lost: list[str], request: Request) -> bool:
    lost.append(request.target)
    return True


async def test_commits_over_a_bad_line_are_applied_exactly_once(gateway: Gateway, stage: ObjectStage):
    """One request in five breaks, before or after its effect, and no version is skipped or taken twice."""
    chance = random.Random(7)
    store = through(gateway, stage)
    watermark = await store.register(KEY, WATCHES)
    gateway.answers = lambda _: b"" if chance.random() < 0.1 else None
    gateway.cuts = lambda _: chance.random() < 0.1
    for number in range(1, 61):
        watermark = await commit(store, watermark)
        assert (watermark.version, watermark.last_seq) == (number, number)
    gateway.answers, gateway.cuts = lambda _: None, lambda _: False
    assert [batch.items for batch in await stage.store().history(KEY)] == [[number] for number in reversed(range(60))]


@pytest.mark.parametrize(("code", "status"), [("SlowDown", "503 Slow Down"), ("InternalError", "500 Internal Error")])
async def test_a_service_that_asks_for_patience_gets_it(gateway: Gateway, stage: ObjectStage, code: str, status: str):
    """Each kind of request is made again, until it is answered."""
    store = through(gateway, stage)
    left = dict.fromkeys(["GET", "PUT", "POST"], 2)

    def patience(request: Request) -> bytes | None:
        left[request.method] -= 1
        return error(code, status) if left[request.method] >= 0 else None

    gateway.answers = patience
    moved = await commit(store, await store.register(KEY, WATCHES))
    left["GET"] = left["PUT"] = 2
    assert (await store.list_watermarks()) == [moved]


async def test_a_service_that_never_answers_is_given_up(gateway: Gateway, stage: ObjectStage):
    """With the store's name and what was wrong, after the time that the address says."""
    stage.address = replace(stage.address, timeout=1)
    store = through(gateway, stage)
    await store.register(KEY, WATCHES)
    gateway.answers = lambda _: error("SlowDown", "503 Slow Down")
    with pytest.raises(StoreUnavailableError, match=rf"{stage.address}.*'stage'.*SlowDown"):
        await store.load(KEY)
    with pytest.raises(StoreUnavailableError, match="SlowDown"):
        await store.report(KEY, NOTHING)


async def test_a_commit_that_dies_before_its_document_is_as_if_it_had_not_begun(gateway: Gateway, stage: ObjectStage):
    """Its items are there and nobody names them; a day later they are gone, and nothing else is."""
    clock = FakeClock(start=dt.datetime.now(dt.UTC))
    stage.address = replace(stage.address, timeout=1)
    store, other = through(gateway, stage, clock=clock), stage.store(clock=clock)
    watermark = await commit(other, await other.register(KEY, WATCHES))
    needed = await stage.keys("data/")
    gateway.answers = lambda request: b"" if writes(request, "watermarks/") else None
    with pytest.raises(StoreUnavailableError):
        await commit(store, watermark)
    assert await other.load(KEY) == watermark
    assert [batch.seq for batch in await other.history(KEY)] == [1]
    assert len(await stage.keys("data/")) == len(needed) + 2
    assert await other.prune(KEY, DAY, 99) == 0
    assert len(await stage.keys("data/")) == len(needed) + 2
    clock.set_wall(2 * DAY)
    assert await other.prune(KEY, 10 * DAY, 99) == 0
    assert await stage.keys("data/") == needed
    assert [batch.items for batch in await other.history(KEY)] == [[0]]
    assert await other.remembered(KEY, "", "", 9) == [("last", b"0")]


async def test_who_may_only_read_is_told_what_is_missing(stage: ObjectStage):
    """The permission, the place and the connection are named, and no secret."""
    await commit(stage.store(), await stage.store().register(KEY, WATCHES))
    server = stage.server
    reader = replace(server, access_key=server.reader_access_key, secret_key=server.reader_secret_key)
    store = stage.store(server=reader)
    assert (await store.load(KEY)) is not None
    with pytest.raises(StoreUnavailableError, match=rf"s3:PutObject on {stage.address}") as refused:
        await store.report(KEY, NOTHING)
    assert server.reader_secret_key not in str(refused.value)


async def test_a_bucket_that_is_not_there_is_named(stage: ObjectStage):
    """Reading and writing alike."""
    stage.address = replace(stage.address, bucket="nowhere-to-be-found")
    for work in (stage.store().load(KEY), stage.store().register(KEY, WATCHES), stage.store().list_watermarks()):
        with pytest.raises(StoreUnavailableError, match="make the bucket 'nowhere-to-be-found'"):
            await work


async def test_a_service_without_conditions_is_refused_before_anything_is_kept(moto_server: S3Server):
    """It would let two writers overwrite one another; the error says so, and nothing but the identity is there."""
    async with gateway_to(moto_server) as gateway, stage_on(moto_server) as stage:
        gateway.change = _without_conditions
        store = through(gateway, stage)
        with pytest.raises(StoreUnavailableError, match="does not honour If-Match"):
            await store.register(KEY, WATCHES)
        assert await stage.keys() == ["store.json"]
        refusal = error("NotImplemented", "501 Not Implemented")
        gateway.answers = lambda request: refusal if request.method == "PUT" else None
        with pytest.raises(StoreUnavailableError, match="does not honour If-Match"):
            await store.register(KEY, WATCHES)
        await store.aclose()


def _without_conditions(request: bytes) -> bytes:
    head, separator, body = request.partition(b"\r\n\r\n")
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"if-match", b"if-none-match"))]
    return b"\r\n".join(kept) + separator + body


async def test_credentials_that_expire_are_renewed(gateway: Gateway, stage: ObjectStage):
    """The next request is made by a new client."""
    made = []

    async def factory() -> Any:
        made.append(opened(replace(gateway.server, endpoint=gateway.endpoint)))
        return made[-1]

    store = stage.store(client=factory)
    await store.register(KEY, WATCHES)
    expired = [error("ExpiredToken", "400 Bad Request")]
    gateway.answers = lambda _: expired.pop() if expired else None
    before = len(made)
    assert await store.load(KEY) is not None
    assert len(made) == before + 3  # one for each of two requests, and one that is kept open
