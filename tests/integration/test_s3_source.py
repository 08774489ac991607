"""The S3 source on real servers: whatever they list and however they stamp it, every object comes once."""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

from tests.integration.s3_landing import DEADLINE
from tests.integration.s3_polls import still

ODD = [
    *["+", "%", "%25", "~", "😀.csv", "e\u0301", "é", "a b+c:d%20é.csv", "&<>\"'", "[x].zip", "x?y#z"],
    *["end ", " start", "tab\t", "cr\r", "\x01\x1f\x7f"],
]
# Each server refuses some keys, or files them under another name.
ODD_ON = {
    "s3_server": [*ODD, "nl\n"],
    "moto_server": [*ODD, "back\\slash", "a//b", "/lead", "./x", "a/../b", "k" * 1024],
}


async def test_two_objects_of_one_second(landing):
    """The second object of a second is put after the first poll, with a restart between: both come, once."""
    await landing.put("b")
    source = landing.source()
    await source.poll(None, 10, frozenset())
    await source.aclose()
    await landing.put("a")
    await landing.watch(landing.has(1), limit=1)
    await landing.put("c")
    await landing.watch(landing.has(3), limit=1)
    assert sorted(await landing.keys()) == ["a", "b", "c"]


async def test_writes_without_pause(landing):
    """What three writers put all the while comes once each, over six restarts, with nothing read a second time."""
    names = [f"{writer}/{number:03}" for number in range(60) for writer in "pqr"]

    async def write(writer: str) -> None:
        for name in names:
            if name.startswith(writer):
                await landing.put(name)
                await asyncio.sleep(0.05)

    writing = asyncio.gather(*map(write, "pqr"))
    for count in (10, 40, 70, 100, 130, len(names)):
        await landing.watch(landing.has(count), limit=7, lateness=0)
    await writing
    assert sorted(await landing.keys()) == sorted(names)


async def test_backlog_with_limit_and_restarts(landing):
    """2,500 objects over three pages, 100 a batch, a restart every third one: 2,500 deliveries, in order."""
    names = [f"in/{number:05}.csv" for number in range(2500)]
    await landing.put_all(names)
    low, delivered, seen = None, [], set()
    source = landing.source(prefix="in/")
    async with asyncio.timeout(DEADLINE):
        while len(delivered) < len(names):
            found = await source.poll(low, 100, seen)
            low = found.high
            seen.update(found.fingerprints)
            delivered += [(item["last_modified"], item["key"]) for item in found.items]
            if len(delivered) % 300 == 0 or not found.more:
                await source.aclose()
                source = landing.source(prefix="in/")
    await source.aclose()
    assert sorted(key for _, key in delivered) == names
    assert delivered == sorted(delivered)


async def test_odd_keys(landing, request):
    """Keys come byte-equal to what was put, can be read with it, and are found again in the encoded address."""
    names = ODD_ON[request.node.callspec.params["server"]]
    await landing.put_all(names)
    await landing.watch(landing.has(len(names)))
    assert sorted(await landing.keys()) == sorted(names)
    for item in await landing.items():
        assert unquote(item["uri"]) == f"s3://{landing.bucket}/{item['key']}"
        answer = await landing.client.get_object(Bucket=item["bucket"], Key=item["key"])
        assert (answer["ETag"].strip('"'), len(await answer["Body"].read())) == (item["etag"], item["size"])
        assert abs((answer["LastModified"] - item["last_modified"]).total_seconds()) < 1


async def test_multipart_upload_that_ends_late(landing):
    """An upload begun before another object, and ended after that was delivered, comes too, however it is dated."""
    upload = {"Bucket": landing.bucket, "Key": "big"}
    upload["UploadId"] = (await landing.client.create_multipart_upload(**upload))["UploadId"]
    part = await landing.client.upload_part(**upload, PartNumber=1, Body=b"x" * 1000)
    await landing.put("small")
    await landing.watch(landing.has(1))
    assert await landing.keys() == ["small"]
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    await landing.client.complete_multipart_upload(**upload, MultipartUpload=parts)
    await landing.watch(landing.has(2))
    assert await landing.keys() == ["small", "big"]


async def test_start_at_latest(landing):
    """What was there at the start is left out, then a new object, an empty one and a new version of an old one come."""
    await landing.put_all(["in/old", "in/kept", "elsewhere"])
    await landing.put("in/marker/", b"")
    probe = landing.source(prefix="in/", monotonic=still)
    async with asyncio.timeout(DEADLINE):
        while len((await probe.latest()).fingerprints) < 3:
            await asyncio.sleep(0.1)
    await probe.aclose()
    await landing.watch(landing.started, start="latest", prefix="in/", monotonic=still)
    await landing.put_all(["in/new", "in/empty"])
    await landing.put("in/old", b"again")
    await landing.put("in/zero", b"")
    await landing.put("in/other/", b"")
    await landing.watch(landing.has(4), start="latest", prefix="in/")
    assert sorted(await landing.keys()) == ["in/empty", "in/new", "in/old", "in/zero"]


async def test_start_at_latest_of_an_empty_bucket(landing):
    """The start is decided on an empty bucket too, and survives a restart: what comes later is delivered."""
    await landing.watch(landing.started, start="latest")
    await landing.put("first")
    await landing.watch(landing.has(1), start="latest")
    assert await landing.keys() == ["first"]


async def test_deleted_and_put_again(landing):
    """An object that went away and came again is a new item."""
    await landing.put("a")
    await landing.watch(landing.has(1))
    await landing.client.delete_object(Bucket=landing.bucket, Key="a")
    await landing.put("a", b"other")
    await landing.watch(landing.has(2))
    assert await landing.keys() == ["a", "a"]
