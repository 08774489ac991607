"""Faults that other systems had with S3 listings, each by its number in the list of cases, on real servers."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from tests.integration.s3_polls import Polls


async def test_case_01_ties_with_a_limit(landing):
    """Three objects, most likely of one second, one a batch, a restart between: each once."""
    await landing.put_all(["a", "b", "c"])
    polls = Polls(landing, limit=1)
    assert await polls.until(lambda: len(polls.keys) >= 3) == [1, 1, 1]
    await polls.settled()
    assert sorted(polls.keys) == ["a", "b", "c", "zz-settled"]


@pytest.mark.parametrize("number", [2, 4])
async def test_case_02_and_04_second_object_of_the_second(landing, number):
    """An object put right after the poll that saw the first one, in its second or not: both once."""
    first, second = ("a", "b") if number == 2 else ("b", "a")
    await landing.put(first)
    polls = Polls(landing)
    await polls.until(lambda: first in polls.keys)
    await landing.put(second)
    await polls.until(lambda: second in polls.keys)
    await polls.settled()
    assert polls.keys == [first, second, "zz-settled"]


async def test_case_14_and_21_nothing_new(landing):
    """One object, five more polls: one delivery, and the cursor stays."""
    await landing.put("a")
    polls = Polls(landing)
    await polls.until(lambda: polls.keys == ["a"])
    before = polls.low
    for _ in range(5):
        found = await polls.poll()
        assert (found.size, found.high) == (0, before)


async def test_case_22_limit_takes_turns(landing):
    """60 objects, 25 a batch: none is hidden by the limit, none comes twice."""
    await landing.put_all([f"{number:02}" for number in range(60)])
    await Polls(landing).settled()
    polls = Polls(landing, limit=25)
    sizes = await polls.until(lambda: len(polls.keys) >= 61)
    assert sizes == [25, 25, 11]
    assert len(set(polls.keys)) == 61


async def test_case_26_folder_markers(landing):
    """A marker makes no item, at the prefix itself neither; an empty file is delivered."""
    await landing.put("in/", b"")
    await landing.put("in/a")
    await landing.put("in/empty", b"")
    polls = Polls(landing, prefix="in/")
    await polls.until(lambda: len(polls.keys) >= 2)
    assert sorted(polls.keys) == ["in/a", "in/empty"]


async def test_case_27_and_29_literal_keys_and_patterns(landing):
    """Keys with +, : and spaces come as they are; brackets in a pattern are a set, and escaped, themselves."""
    for key in ("d/2024-01.zip", "d/2024-01.txt", "d/2024-09.zip", "d/[x].zip", "d/a b+c:d%20é.csv"):
        await landing.put(key)
    for pattern, key in [
        ("2024-0[1-3]*.zip", "d/2024-01.zip"),
        ("[[]x].zip", "d/[x].zip"),
        ("a *", "d/a b+c:d%20é.csv"),
    ]:
        polls = Polls(landing, prefix="d/", pattern=pattern)
        await polls.until(lambda polls=polls: bool(polls.keys))
        assert polls.keys == [key]
        head: Awaitable[Any] = landing.client.head_object(Bucket=landing.bucket, Key=polls.items[0]["key"])
        assert (await head)["ContentLength"] == 1


async def test_case_30_one_text_in_place_of_a_list(landing):
    """A suffix that is one text is the same as a list with it, not its characters."""
    for key in ("a.csv", "b.v"):
        await landing.put(key)
    for suffix in (".csv", [".csv"]):
        polls = Polls(landing, suffix=suffix)
        await polls.until(lambda polls=polls: bool(polls.keys))
        assert polls.keys == ["a.csv"]


async def test_case_34_etag_of_a_multipart_upload(landing):
    """The same bytes as one part and as an upload in parts are two versions: an etag is an identity, not a hash."""
    await landing.put("k", b"x" * 1000)
    polls = Polls(landing)
    await polls.until(lambda: len(polls.keys) == 1)
    upload = {"Bucket": landing.bucket, "Key": "k"}
    upload["UploadId"] = (await landing.client.create_multipart_upload(**upload))["UploadId"]
    part = await landing.client.upload_part(**upload, PartNumber=1, Body=b"x" * 1000)
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    await landing.client.complete_multipart_upload(**upload, MultipartUpload=parts)
    await polls.until(lambda: len(polls.keys) == 2)
    assert polls.items[0]["etag"] != polls.items[1]["etag"]
