"""Orders, versions and owners on real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from tests.integration.s3_landing import DEADLINE, Landing, opened
from tests.integration.s3_polls import Polls
from tests.integration.test_s3_source import ODD_ON


def by_key(landing: Landing, **arguments: Any) -> S3KeyOrderSource:
    """Return a source in the order of keys."""

    async def client() -> Any:
        return opened(landing.server)

    return S3KeyOrderSource(**{"bucket": landing.bucket, "client": client, **arguments})


@pytest.mark.parametrize("limit", [1, 3])
async def test_odd_keys_in_the_order_of_keys(landing, request, limit):
    """Each odd key is a place to go on from, with a restart after each batch: all come once, in the order of bytes."""
    server = request.node.callspec.params["server"]
    # moto repeats StartAfter as it is, and XML cannot carry control characters.
    names = [name for name in ODD_ON[server] if server != "moto_server" or name.isprintable()]
    await landing.put_all(names)
    low, keys = None, []
    async with asyncio.timeout(DEADLINE):
        while True:
            source = by_key(landing, reread=0)
            found = await source.poll(low, limit, frozenset())
            await source.aclose()
            low = found.high
            keys += [item["key"] for item in found.items]
            if not found.more:
                break
    assert keys == sorted(names, key=str.encode)


async def test_versions_have_their_ids(landing):
    """In a versioned bucket an item names the version that was there, which can be read after it was overwritten."""
    versioning = {"Bucket": landing.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    await landing.client.put_bucket_versioning(**versioning)
    for body in (b"1", b"2"):
        await landing.put("a b/é", body)
    await landing.put("deleted")
    await landing.client.delete_object(Bucket=landing.bucket, Key="deleted")
    source = landing.source(versioned=True, settle=1)
    async with asyncio.timeout(DEADLINE):
        while not (found := await source.poll(None, 10, frozenset())).size:
            await asyncio.sleep(0.1)
    await source.aclose()
    await landing.put("a b/é", b"3")
    (item,) = found.items
    version = {"Bucket": item["bucket"], "Key": item["key"], "VersionId": item["version_id"]}
    answer = await landing.client.get_object(**version)
    assert await answer["Body"].read() == b"2"


async def test_versions_over_pages(landing):
    """A listing of versions goes on over pages, from odd keys as well."""
    versioning = {"Bucket": landing.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    await landing.client.put_bucket_versioning(**versioning)
    names = [f"a+b %25/é{number:04}" for number in range(1005)]
    await landing.put_all(names)
    source = by_key(landing, versioned=True, reread=0)
    low, keys = None, []
    while (found := await source.poll(low, 500, frozenset())).size:
        low = found.high
        keys += [item["key"] for item in found.items]
    await source.aclose()
    assert keys == names


async def test_versions_can_be_switched_on_and_off(landing):
    """What was delivered is known whether versions are listed or not."""
    versioning = {"Bucket": landing.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    await landing.client.put_bucket_versioning(**versioning)
    polls = Polls(landing, settle=1)
    for number, versioned in enumerate((False, True, False)):
        polls._arguments["versioned"] = versioned
        await landing.put(f"key{number}")
        await polls.until(lambda latest=f"key{number}": latest in polls.keys)
        await polls.poll()
    assert sorted(polls.keys) == ["key0", "key1", "key2"]
    assert [item["version_id"] is not None for item in polls.items] == [False, True, False]
