"""A store in a bucket in memory whose connections break now and then, the same ones each time."""

from __future__ import annotations

import random
from typing import Any

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.stores.objects.address import ObjectAddress
from airflow_provider_incremental.stores.objects.store import ObjectStore
from tests.dict_bucket import DictBucket

__all__ = ["broken_store"]


def broken_store(clock: Clock, *, page: int = 2, breaks: float = 0.04) -> ObjectStore:
    """Open an empty store.

    :param breaks: the share of requests whose connection breaks.
    """
    bucket, chance = DictBucket(), random.Random(1)

    def fault(*_: Any) -> Any:
        return chance.choice(["before", "after"]) if chance.random() < breaks else None

    bucket.fault = fault
    store = ObjectStore(address=ObjectAddress(bucket="bucket"), client=bucket, clock=clock, page=page)
    store.bucket.pause = lambda _: 0.0
    return store
