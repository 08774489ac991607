"""Removals on real servers: what is deleted is reported, once, by its exact key, over restarts and pages."""

from __future__ import annotations

from tests.integration.s3_polls import Polls
from tests.integration.test_s3_source import ODD_ON


async def test_deleted_object_through_the_feed(landing):
    """A deleted object is the item of a batch of kind "removed", in the log among the others, also after a restart."""
    await landing.put_all(["in/a", "in/b"])
    await landing.watch(landing.has(2), prefix="in/", removals=True)
    await landing.client.delete_object(Bucket=landing.bucket, Key="in/b")
    await landing.watch(landing.lost(1), prefix="in/", removals=True)
    await landing.put("in/c")
    await landing.watch(landing.has(3), prefix="in/", removals=True)
    assert await landing.removed() == [
        {"bucket": landing.bucket, "key": "in/b", "uri": f"s3://{landing.bucket}/in/b"},
    ]
    kinds = [batch.kind for batch in await landing.batches()]
    assert kinds[-2:] == ["removed", "added"]


async def test_odd_keys(landing, request):
    """Keys with anything in them are reported byte-equal to what was put."""
    names = ODD_ON[request.node.callspec.params["server"]]
    await landing.put_all(names)
    polls = Polls(landing, removals=True)
    await polls.until(lambda: len(polls.keys) == len(names))
    for name in names:
        await landing.client.delete_object(Bucket=landing.bucket, Key=name)
    await polls.until(lambda: len(polls.removed) == len(names))
    assert polls.removed == sorted(names, key=str.encode)


async def test_start_at_latest_over_pages(landing):
    """1,200 keys that are there at the start are known; half of them go, 500 a batch, and each is reported once."""
    names = [f"{number:05}" for number in range(1200)]
    await landing.put_all(names)
    await Polls(landing).settled()
    polls = Polls(landing, removals=True, limit=500)
    await polls.start_at_latest()
    await polls.poll()
    gone = names[::2]
    for start in range(0, len(gone), 300):
        keys = {"Objects": [{"Key": name} for name in gone[start : start + 300]]}
        await landing.client.delete_objects(Bucket=landing.bucket, Delete=keys)
    await polls.until(lambda: len(polls.removed) >= 600)
    assert (await polls.poll()).removed == []
    assert (polls.removed, polls.keys) == (gone, [])


async def test_delete_marker(landing):
    """In a versioned bucket an object is gone when its newest version is a delete marker, and comes again when put."""
    versioning = {"Bucket": landing.bucket, "VersioningConfiguration": {"Status": "Enabled"}}
    await landing.client.put_bucket_versioning(**versioning)
    await landing.put_all(["a", "b"])
    polls = Polls(landing, removals=True, versioned=True)
    await polls.until(lambda: len(polls.keys) == 2)
    await landing.client.delete_object(Bucket=landing.bucket, Key="a")
    await polls.until(lambda: polls.removed == ["a"])
    await landing.put("a")
    await polls.until(lambda: len(polls.keys) == 3)
    assert polls.keys[2] == "a"
