"""What real servers refuse: shown as what it is in the watermark's status, and gone once it is put right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_source import S3KeySource
from harness.processes import free_ports
from harness.servers import S3Server
from tests.integration.s3_landing import Landing, landing_on, opened


@pytest.fixture
async def landing(s3_server: S3Server) -> AsyncIterator[Landing]:
    """A bucket."""
    async with landing_on(s3_server) as landing:
        yield landing


async def failure(landing: Landing, *, bucket: str | None = None, **login: str) -> S3ListingError:
    """Poll with a client that cannot work, and return why."""

    async def client():
        return opened(landing.server, **login)

    source = S3KeySource(bucket=bucket or landing.bucket, prefix="in/", client=client, conn_id="my_aws")
    with pytest.raises(S3ListingError) as raised:
        await source.poll(None, 10, frozenset())
    await source.aclose()
    return raised.value


async def test_no_such_bucket(landing):
    """A bucket that is not there is not an empty one."""
    error = await failure(landing, bucket="nowhere-to-be-found")
    assert (error.code, error.status, error.temporary) == ("NoSuchBucket", 404, False)
    assert "s3://nowhere-to-be-found/in/" in str(error)
    assert "'my_aws'" in str(error)


async def test_wrong_secret(landing):
    """A wrong secret is named as such, and not shown."""
    error = await failure(landing, aws_secret_access_key="not-the-secret")
    assert (error.code, error.status) == ("SignatureDoesNotMatch", 403)
    assert "access key" in str(error)
    assert "not-the-secret" not in str(error)


async def test_unknown_access_key(landing):
    """An unknown access key is named as such, and not shown."""
    error = await failure(landing, aws_access_key_id="AKIAUNKNOWN")
    assert (error.code, error.status) == ("InvalidAccessKeyId", 403)
    assert "AKIAUNKNOWN" not in str(error)


async def test_nobody_answers(landing):
    """A server that is not there is a temporary trouble of the network."""
    (port,) = free_ports(1)
    error = await failure(landing, endpoint_url=f"http://127.0.0.1:{port}")
    assert (error.code, error.status, error.temporary) == (None, None, True)
    assert "endpoint_url" in str(error)


@pytest.mark.parametrize("cut", ["head", "body", "xml"])
async def test_answer_is_cut_short(landing, cut):
    """An answer that ends too early is an error, wherever it ends."""
    xml = b'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>'
    length = len(xml) + (500 if cut == "body" else 0)
    head = b"HTTP/1.1 200 OK\r\nDate: Sun, 01 Mar 2026 12:00:00 GMT\r\nContent-Type: application/xml\r\n"
    answer = head + (b"" if cut == "head" else b"Content-Length: %d\r\n\r\n" % length + xml)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await failure(landing, endpoint_url=f"http://127.0.0.1:{port}")
    assert error.temporary


async def test_trouble_shows_in_the_status_and_ends(landing):
    """A bucket that is made later is read then; until that the status says what is missing."""
    bucket, landing.bucket = landing.bucket, f"{landing.bucket}-later"

    async def failing() -> bool:
        status = await landing.status()
        return bool(status and status.last_error)

    await landing.watch(failing)
    status = await landing.status()
    assert "NoSuchBucket" in status.last_error
    assert bucket in status.last_error
    await landing.client.create_bucket(Bucket=landing.bucket)
    await landing.put("a")
    await landing.watch(landing.has(1))
    assert (await landing.status()).last_error is None


async def test_client_of_the_hook(landing, monkeypatch):
    """The factory is what Airflow's own hook gives: one way to the credentials for tasks and triggers."""
    monkeypatch.setenv("AIRFLOW_CONN_MY_AWS", landing.server.airflow_connection())
    assert json.loads(landing.server.airflow_connection())["conn_type"] == "aws"
    await landing.put("a")
    source = S3KeySource(bucket=landing.bucket, client=S3Hook(aws_conn_id="my_aws").get_async_conn, conn_id="my_aws")
    async with asyncio.timeout(30):
        while not (found := await source.poll(None, 10, frozenset())).size:
            await asyncio.sleep(0.1)
    await source.aclose()
    assert [item["key"] for item in found.items] == ["a"]
