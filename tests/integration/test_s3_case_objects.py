"""Faults that others had with versions, starts and permissions: each by its number, on real servers."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import Any

import boto3
import pytest
from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.wiring.connections import S3ClientFactory
from harness.servers import S3Server
from tests.integration.s3_gateway import gateway_to
from tests.integration.s3_landing import landing_on, opened
from tests.integration.s3_polls import Polls, still


async def test_case_18_overwritten_object(landing):
    """Each write makes an item, also of the same content, which S3 gives a new time; or the key comes only once."""
    emitting, ignoring = Polls(landing), Polls(landing, on_overwrite="ignore")
    for number, body in enumerate([b"v1", b"v2", b"v2"], 1):
        await landing.put("k", body)
        await emitting.until(lambda number=number: len(emitting.items) == number)
        await ignoring.until(lambda: len(ignoring.items) == 1)
    etags = [item["etag"] for item in emitting.items]
    assert etags[0] != etags[1] == etags[2]
    await emitting.poll()
    await ignoring.poll()
    assert (emitting.keys, ignoring.keys) == (["k"] * 3, ["k"])


async def test_case_19_identity_is_the_version_and_no_time(landing, request):
    """A version is one item, whatever time is said of it later."""
    versioning = {"Bucket": landing.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    await landing.client.put_bucket_versioning(**versioning)
    await landing.put("k")
    polls = Polls(landing, versioned=True)
    await polls.until(lambda: polls.keys == ["k"])
    if request.node.callspec.params["server"] == "moto_server":
        landing.date("k", polls.items[0]["last_modified"] - dt.timedelta(seconds=1))
    for _ in range(3):
        assert (await polls.poll()).size == 0
    await landing.put("k")
    await polls.until(lambda: len(polls.keys) == 2)
    assert len({item["version_id"] for item in polls.items}) == 2


async def test_case_23_start_at_latest(landing):
    """Three old objects are left out, a new one comes: the start is kept, over a restart too."""
    await landing.put_all(["a", "b", "c"])
    await Polls(landing).settled()
    await landing.watch(landing.started, start="latest", monotonic=still)
    assert await landing.keys() == []
    await landing.put("new")
    await landing.watch(landing.has(1), start="latest")
    assert await landing.keys() == ["new"]


async def test_case_23_start_at_latest_of_an_empty_bucket(landing):
    """The start is kept of an empty bucket as well: the first object that ever comes is delivered."""
    await landing.watch(landing.started, start="latest")
    await landing.put("first")
    await landing.watch(landing.has(1), start="latest")
    assert await landing.keys() == ["first"]


async def test_case_31_role_of_the_connection(moto_server, monkeypatch):
    """A role in the connection is taken by our client as by Airflow's hook, and an item says what the hook says."""
    async with landing_on(moto_server) as landing, gateway_to(moto_server) as gateway:
        extra = {
            "region_name": moto_server.region,
            "endpoint_url": gateway.endpoint,
            "role_arn": "arn:aws:iam::123456789012:role/reader",
            "service_config": {"sts": {"endpoint_url": gateway.endpoint}},
        }
        login = {"conn_type": "aws", "login": moto_server.access_key, "password": moto_server.secret_key}
        monkeypatch.setenv("AIRFLOW_CONN_WITH_ROLE", json.dumps(login | {"extra": extra}))
        await landing.put("k", b"body")
        polls = Polls(landing, client=S3ClientFactory(aws_conn_id="with_role"))
        await polls.until(lambda: polls.keys == ["k"])
        ours = gateway.listings
        gateway.requests = []
        hook = S3Hook(aws_conn_id="with_role")
        assert await asyncio.to_thread(hook.list_keys, landing.bucket) == ["k"]
        theirs = gateway.listings
        head = await asyncio.to_thread(hook.head_object, "k", landing.bucket)
    for request in (*ours, *theirs):
        assert "x-amz-security-token" in request.headers
        assert f"Credential={moto_server.access_key}/" not in request.headers["authorization"]
    (item,) = polls.items
    said = (head["ETag"].strip('"'), head["ContentLength"], head["LastModified"])
    assert (item["etag"], item["size"], item["last_modified"].replace(microsecond=0)) == said


def may_list(bucket: str, prefix: str | None = None) -> str:
    """A policy that lets a bucket be listed, or the keys below a prefix."""
    statement: dict[str, Any] = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{bucket}"}
    if prefix is not None:
        statement |= {"Principal": "*", "Condition": {"StringLike": {"s3:prefix": f"{prefix}*"}}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


async def denied(polls: Polls) -> str:
    """Poll in vain, and return what is said."""
    before = polls.low
    with pytest.raises(S3ListingError) as raised:
        await polls.poll()
    assert (raised.value.code, raised.value.status) == ("AccessDenied", 403)
    assert polls.low == before
    return str(raised.value)


async def test_case_32_reader_who_may_not_list(s3_server):
    """Without s3:ListBucket a listing is an error and never empty; with it on one prefix, that prefix is delivered."""
    async with landing_on(s3_server) as landing:
        await landing.put_all(["open/a", "closed/b"])
        login = {
            "aws_access_key_id": s3_server.reader_access_key,
            "aws_secret_access_key": s3_server.reader_secret_key,
        }
        async with opened(s3_server, **login) as client:
            below, beside = (Polls(landing, client=client, prefix=prefix) for prefix in ("open/", "closed/"))
            assert f"s3:ListBucket on arn:aws:s3:::{landing.bucket}" in await denied(below)
            await landing.client.put_bucket_policy(Bucket=landing.bucket, Policy=may_list(landing.bucket, "open/"))
            await below.until(lambda: below.keys == ["open/a"])
            assert "allow the prefix 'closed/'" in await denied(beside)
            await landing.client.delete_bucket_policy(Bucket=landing.bucket)
            await denied(below)
    assert below.keys == ["open/a"]


async def test_case_32_user_without_a_policy(moto_server: S3Server):
    """The same with a user of IAM, before and after the permission was granted."""
    async with landing_on(moto_server) as landing:
        await landing.put("a")
        iam = boto3.client(
            "iam",
            endpoint_url=moto_server.endpoint,
            region_name=moto_server.region,
            aws_access_key_id=moto_server.access_key,
            aws_secret_access_key=moto_server.secret_key,
        )
        name = f"reader-{landing.bucket}"
        iam.create_user(UserName=name)
        key = iam.create_access_key(UserName=name)["AccessKey"]
        login = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
        async with opened(moto_server, **login) as client:
            polls = Polls(landing, client=client)
            with landing.checks_permissions():
                assert "s3:ListBucket" in await denied(polls)
            iam.put_user_policy(UserName=name, PolicyName="list", PolicyDocument=may_list(landing.bucket))
            with landing.checks_permissions():
                await polls.until(lambda: polls.keys == ["a"])
