"""The store in object storage passes the published suite on two S3 servers, which differ in many details."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from harness.servers import S3Server
from tests.integration.object_stage import ObjectStage, stage_on


class ObjectStoreContract(WatermarkStoreContract):
    """A peer is a second store with a client of its own, as another process has it."""

    @pytest.fixture
    async def stage(self, server: S3Server) -> AsyncIterator[ObjectStage]:
        async with stage_on(server) as stage:
            yield stage

    @pytest.fixture
    def store(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock)

    @pytest.fixture
    def peer(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock)


class TestOnSeaweed(ObjectStoreContract):
    """The server of the other tests."""

    @pytest.fixture
    def server(self, s3_server: S3Server) -> S3Server:
        return s3_server


class TestOnMoto(ObjectStoreContract):
    """Another S3."""

    @pytest.fixture
    def server(self, moto_server: S3Server) -> S3Server:
        return moto_server


class TestWithSmallPages(TestOnSeaweed):
    """With batches moved out of the document, and back, all the time."""

    @pytest.fixture
    def store(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock, page=1)

    @pytest.fixture
    def peer(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock, page=2)
