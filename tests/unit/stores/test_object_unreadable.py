"""Batches in object storage whose items this release cannot read: they keep the others from nobody."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from airflow_provider_incremental.testing._stage import KEY, ORDERS, WATCHES, log_of
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.dict_bucket import DictBucket


async def test_a_consumer_gets_the_others_first_and_then_the_reason() -> None:
    """No lease and no attempt is spent on it; in order nothing overtakes it."""
    bucket = DictBucket()
    store = ObjectStore(address=ObjectAddress(bucket="b"), client=bucket, clock=FakeClock())
    await store.register(KEY, WATCHES)
    await store.subscribe(ORDERS, "load", "earliest")
    await store.subscribe(ORDERS, "in order", "earliest")
    await log_of(store, 4)
    (spoilt,) = [key for key, (_, body, _) in bucket.objects.items() if b"item 1" in body]
    mark, body, at = bucket.objects[spoilt]
    bucket.objects[spoilt] = mark, body.replace(b'["item 1"]', b'[{"$v":1}]'), at
    claims = [await store.claim(ORDERS, "load", f"worker {number}", 60) for number in range(3)]
    assert [claim and claim.batch.seq for claim in claims] == [1, 3, 4]
    for _ in range(2):
        with pytest.raises(StoreError, match="batch 2 of watermark orders cannot be read here"):
            await store.claim(ORDERS, "load", "worker", 60)
    first = await store.claim(ORDERS, "in order", "worker", 60, ordered=True)
    assert first is not None
    await store.acknowledge(first)
    with pytest.raises(StoreError, match="batch 2 of watermark orders cannot be read here"):
        await store.claim(ORDERS, "in order", "worker", 60, ordered=True)
    bucket.objects[spoilt] = mark, body, at
    claim = await store.claim(ORDERS, "load", "worker", 60)
    assert claim is not None
    assert (claim.batch.seq, claim.attempt) == (2, 1)
