"""What of a prefix is delivered: names, sizes, classes, overwrites; and what every request says."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket, at
from tests.unit.sources.s3_watcher import Watcher

SOURCES = pytest.mark.parametrize("source", [S3KeySource, S3KeyOrderSource])


@pytest.fixture
def bucket() -> FakeBucket:
    return FakeBucket()


@SOURCES
@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        ({"suffix": ".csv"}, ["in/a.csv", "in/x/c.csv"]),
        ({"suffix": [".csv", ".txt"]}, ["in/a.csv", "in/b.txt", "in/x/c.csv"]),
        ({"pattern": "*.csv"}, ["in/a.csv"]),
        ({"pattern": "regex:.*[.](csv|gz)"}, ["in/a.csv", "in/x/c.csv", "in/x/d.gz"]),
        ({"regex": "x/.*"}, ["in/x/c.csv", "in/x/d.gz"]),
        ({"regex": "x"}, []),
        ({"min_size": 2}, ["in/x/c.csv", "in/x/d.gz"]),
        ({"min_size": 2, "suffix": ".gz", "pattern": "**"}, ["in/x/d.gz"]),
    ],
)
async def test_names_and_sizes(bucket, source, arguments, keys):
    """What is given has to hold together; one suffix is the same as a list with it."""
    for key, size in [("in/a.csv", 1), ("in/b.txt", 1), ("in/x/c.csv", 2), ("in/x/d.gz", 3)]:
        bucket.put(key, size=size, modified=1)
    watcher = Watcher(bucket, source=source, prefix="in/", **arguments)
    await watcher.poll()
    assert watcher.keys == keys


@SOURCES
async def test_archived_objects_are_reported(bucket, source, caplog):
    """Objects that cannot be read are not delivered, but counted in the note and logged, once; others come."""
    bucket.put("a", modified=1, storage_class="GLACIER")
    bucket.put("b", modified=1, storage_class="DEEP_ARCHIVE")
    bucket.put("c", modified=1, storage_class="GLACIER_IR")
    bucket.put("d", modified=1, storage_class="STANDARD_IA")
    watcher = Watcher(bucket, source=source)
    found = await watcher.poll()
    assert watcher.keys == ["c", "d"]
    assert "1 in DEEP_ARCHIVE, 1 in GLACIER" in found.note
    assert "storage_class=[...]" in found.note
    watcher.restart()
    assert len([record for record in caplog.records if "archived" in record.message]) == 1


@SOURCES
async def test_storage_classes_that_are_named(bucket, source):
    """Who names classes gets those, archived or not, and no report."""
    for key, name in [("a", "GLACIER"), ("b", "STANDARD"), ("c", "STANDARD_IA")]:
        bucket.put(key, modified=1, storage_class=name)
    watcher = Watcher(bucket, source=source, storage_class=["GLACIER", "STANDARD"])
    assert (await watcher.poll()).note is None
    assert [(item["key"], item["storage_class"]) for item in watcher.items] == [("a", "GLACIER"), ("b", "STANDARD")]


async def test_ignored_overwrites_stay_ignored(bucket):
    """A key is delivered once: after its window, after a restart, and where it was there at the start (case 18)."""
    bucket.put("old", modified=1)
    watcher = Watcher(bucket, on_overwrite="ignore", lateness=1)
    watcher.start(await watcher.source.latest())
    for now in (2000, 9000, 20000):
        bucket.now = now
        bucket.put("old", body=str(now))
        bucket.put("k", body=str(now))
        bucket.now += 10
        watcher.restart()
        await watcher.poll()
    assert watcher.keys == ["k"]
    assert watcher.items[0]["last_modified"] == at(2000)


@SOURCES
async def test_what_every_request_says(bucket, source):
    """Who pays and who must own the bucket is said with every page, and only when it is asked for."""
    bucket.page_size = 1
    bucket.put("a", modified=1)
    bucket.put("b", modified=1)
    await Watcher(bucket, source=source).poll()
    assert not any({"RequestPayer", "ExpectedBucketOwner"} & set(request) for request in bucket.requests)
    bucket.requests.clear()
    await Watcher(bucket, source=source, requester_pays=True, bucket_owner="123456789012").poll()
    said = [(request.get("RequestPayer"), request.get("ExpectedBucketOwner")) for request in bucket.requests]
    assert said == [("requester", "123456789012")] * 2


async def test_access_point_in_place_of_the_bucket(bucket):
    """The ARN of an access point, or its alias, goes where the bucket's name goes."""
    arn = "arn:aws:s3:eu-central-1:123456789012:accesspoint/mine"
    await S3KeySource(bucket=arn, client=bucket).poll(None, 1, frozenset())
    assert bucket.requests[0]["Bucket"] == arn
