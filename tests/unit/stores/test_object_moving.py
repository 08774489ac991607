"""Watermarks that move into object storage, from memory."""

from __future__ import annotations

from airflow_provider_incremental.core.copying import contents_of, copy
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.testing._stage import KEY, ORDERS, WATCHES, busy, confirmed, done, log_of, waiting
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.dict_bucket import DictBucket

SMALL = 5000
"""Bytes of a page, so that one watermark takes several."""


async def test_a_document_that_came_in_many_pages_is_as_small_as_one_that_grew_here():
    """What nobody waits for is in objects of its own when the last page is there, and the log is whole."""
    clock, bucket = FakeClock(), DictBucket()
    source = MemoryStore(clock=clock)
    await source.register(KEY, WATCHES)
    await source.subscribe(ORDERS, "load", "earliest")
    await confirmed(source, *await log_of(source, 100))
    await done(source, 70)
    target = ObjectStore(address=ObjectAddress(bucket="b"), client=bucket, clock=clock, page=10)
    await copy(source, target, KEY, None, page_bytes=SMALL)
    assert await waiting(target) == list(range(71, 101))
    assert len([key for key in bucket.objects if "/p-" in key]) == 5
    assert [each.seq for each in await target.history(KEY, None, 200)] == list(range(100, 0, -1))


async def test_a_copy_is_the_same_whichever_way_it_goes():
    """What is only kept of unfinished work does not count for what is finished; what was done by whom does."""
    clock = FakeClock()
    source = MemoryStore(clock=clock)
    await busy(source, clock)
    target = ObjectStore(address=ObjectAddress(bucket="b"), client=DictBucket(), clock=clock, page=1)
    back = MemoryStore(clock=clock)
    assert (await copy(source, target, KEY, None, page_bytes=SMALL)).result == "copied"
    assert (await copy(target, back, KEY, None, page_bytes=SMALL)).result == "copied"
    assert await contents_of(back, KEY) == await contents_of(source, KEY)
    await done(target, 1, "mail")
    assert (await copy(source, target, KEY, None)).result == "differs"
