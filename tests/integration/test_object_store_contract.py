"""The store in object storage passes the published suite on a real S3 server, and with pages as small as can be."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.testing.store_contract import WatermarkStoreContract
from harness.servers import S3Server
from tests.dict_bucket import DictBucket
from tests.integration.object_stage import ObjectStage, stage_on


class TestOnSeaweed(WatermarkStoreContract):
    """A peer is a second store with a client of its own, as another process has it."""

    @pytest.fixture
    async def stage(self, s3_server: S3Server) -> AsyncIterator[ObjectStage]:
        async with stage_on(s3_server) as stage:
            yield stage

    @pytest.fixture
    def store(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock)

    @pytest.fixture
    def peer(self, stage: ObjectStage, clock: FakeClock) -> WatermarkStore:
        return stage.store(clock=clock)


class TestWithSmallPages(WatermarkStoreContract):
    """With batches moved out of the document, and back, all the time; in memory, since only the moving is tried."""

    @pytest.fixture
    def bucket(self) -> DictBucket:
        return DictBucket()

    @pytest.fixture
    def store(self, bucket: DictBucket, clock: FakeClock) -> WatermarkStore:
        return ObjectStore(address=ObjectAddress(bucket="bucket"), client=bucket, clock=clock, page=1)

    @pytest.fixture
    def peer(self, bucket: DictBucket, clock: FakeClock) -> WatermarkStore:
        return ObjectStore(address=ObjectAddress(bucket="bucket"), client=bucket, clock=clock, page=2)
