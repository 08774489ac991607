"""The client of an Airflow connection: what it reads on real servers is what botocore reads, and it is shared."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from airflow_provider_incremental.sources.s3_parser import install
from airflow_provider_incremental.wiring.connections import S3ClientFactory
from harness.servers import S3Server
from tests.integration.s3_landing import Landing, landing_on, opened
from tests.integration.test_s3_source import ODD_ON


@pytest.fixture
async def landing(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Landing]:
    """A bucket, and an Airflow connection to its server."""
    monkeypatch.setenv("AIRFLOW_CONN_MY_AWS", server.airflow_connection())
    async with landing_on(server) as landing:
        yield landing


def uses_our_parser(client: Any) -> bool:
    """Whether a client reads listings with the fast parser."""
    handlers = client.meta.events._emitter._handlers.prefix_search("before-parse.s3.ListObjectsV2")
    return any(handler.__module__ == install.__module__ for handler in handlers)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"EncodingType": "url"},
        {"EncodingType": "url", "MaxKeys": 2},
        {"EncodingType": "url", "FetchOwner": True},
        {"EncodingType": "url", "Delimiter": "/"},
        {"EncodingType": "url", "Prefix": "none/"},
        {"EncodingType": "url", "StartAfter": "a", "Prefix": "a"},
    ],
    ids=str,
)
async def test_same_answers_as_the_stock_parser(landing, request, arguments):
    """Odd keys, owners, folders, pages and empty listings are read as by a client without our parser."""
    await landing.put_all(ODD_ON[request.node.callspec.params["server"]])
    async with await S3ClientFactory(aws_conn_id="my_aws")() as client:
        assert uses_our_parser(client)
        ours = await client.list_objects_v2(Bucket=landing.bucket, **arguments)
    stock = await landing.client.list_objects_v2(Bucket=landing.bucket, **arguments)
    for answer in (ours, stock):
        del answer["ResponseMetadata"]
        answer.pop("NextContinuationToken", None)
        answer["Contents"] = list(answer.get("Contents", ()))
    assert ours == stock


async def test_other_operations_and_errors(landing):
    """What is no listing works as with any client, and an error is raised as what it is."""
    await landing.put("a", b"body")
    async with await S3ClientFactory(aws_conn_id="my_aws")() as client:
        answer = await client.get_object(Bucket=landing.bucket, Key="a")
        assert await answer["Body"].read() == b"body"
        with pytest.raises(client.exceptions.NoSuchBucket):
            await client.list_objects_v2(Bucket="nowhere-to-be-found")


async def test_nobody_else_gets_our_parser(landing):
    """The parser is that of our clients alone: sessions and hooks of others keep botocore's."""
    async with await S3ClientFactory(aws_conn_id="my_aws")() as ours:
        assert uses_our_parser(ours)
        async with await S3Hook(aws_conn_id="my_aws").get_async_conn() as client:
            assert not uses_our_parser(client)
        async with opened(landing.server) as client:
            assert not uses_our_parser(client)


@pytest.mark.usefixtures("landing")
async def test_one_client_for_a_connection_and_region():
    """Factories of one connection and region share a client; another region has its own."""
    same = S3ClientFactory(aws_conn_id="my_aws"), S3ClientFactory(aws_conn_id="my_aws")
    async with await same[0]() as first, await same[1]() as second:
        assert first is second
        async with await S3ClientFactory(aws_conn_id="my_aws", region_name="eu-west-1")() as other:
            assert other is not first
            assert other.meta.region_name == "eu-west-1"
