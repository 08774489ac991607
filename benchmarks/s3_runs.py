"""The pieces of work that are measured, each run alone in a fresh process, which prints its cost as JSON."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from airflow.providers.amazon.aws.hooks.s3 import S3Hook

from airflow_provider_incremental.core.source import Memory, Pieces
from airflow_provider_incremental.sources.s3_errors import Place
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_listing import S3Listing
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.wiring.connections import S3ClientFactory
from benchmarks.s3_meter import Cost, looped, measured
from benchmarks.s3_stub import LATENCY, Stub

__all__ = ["run"]

_BUCKET = "stub"
_PREFIX = "events/"
_CONN = "bench_s3"
_NEW = 100
_FIRST = {"Bucket": _BUCKET, "Prefix": _PREFIX, "EncodingType": "url"}


def run(name: str, url: str) -> Cost:
    """Run one piece of work against the stub at a URL, in a process of its own, and return what it cost."""
    connection = {"endpoint_url": url, "region_name": "us-east-1"}
    login = {"conn_type": "aws", "login": "access", "password": "bench-secret", "extra": connection}
    environment = os.environ | {
        f"AIRFLOW_CONN_{_CONN.upper()}": json.dumps(login),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    command = [sys.executable, "-m", __spec__.name, name]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


async def paginator() -> Cost:
    """The stock paginator of aiobotocore, through Airflow's hook."""
    async with await S3Hook(aws_conn_id=_CONN).get_async_conn() as client:
        await client.list_objects_v2(**_FIRST)
        async with looped() as cost:
            async for page in client.get_paginator("list_objects_v2").paginate(**_FIRST):
                len(page["Contents"])
    return cost


async def listing() -> Cost:
    """Our listing, one page after the other."""
    client = S3ClientFactory(aws_conn_id=_CONN)
    listing = S3Listing(
        place=Place(bucket=_BUCKET, prefix=_PREFIX), client=client, monotonic=asyncio.get_running_loop().time
    )
    await listing.page()
    async with looped() as cost:
        scan = await listing.begin()
        async for objects in scan.pages():
            len(objects)
    await listing.aclose()
    return cost


async def poll() -> Cost:
    """A poll of the trigger's source from the very start: listing, order, the first batch."""
    source = S3KeySource(bucket=_BUCKET, prefix=_PREFIX, client=S3ClientFactory(aws_conn_id=_CONN))
    await source.poll((dt.datetime.now(dt.UTC), ""), 1, frozenset())
    async with looped() as cost:
        await source.poll(None, 1000, frozenset())
    await source.aclose()
    return cost


async def ranges() -> Cost:
    """A poll in 16 ranges: the one before it has learned where to split."""
    source = S3KeySource(bucket=_BUCKET, prefix=_PREFIX, client=S3ClientFactory(aws_conn_id=_CONN))
    end = dt.datetime.now(dt.UTC), ""
    await source.poll(end, 1000, frozenset())
    async with looped() as cost:
        await source.poll(end, 1000, frozenset())
    await source.aclose()
    return cost


async def removals() -> Cost:
    """A poll that compares as many known keys as there are; that they are known is prepared before."""
    source = S3KeySource(bucket=_BUCKET, prefix=_PREFIX, client=S3ClientFactory(aws_conn_id=_CONN), removals=True)
    source.memory = memory = DictMemory()
    end = dt.datetime.now(dt.UTC), ""
    _stub(latency=0.0)
    while (found := await source.poll(end, 1000, frozenset())).more:
        memory.change(found.remember)
    memory.change(found.remember)
    _stub()
    async with looped() as cost:
        found = await source.poll(end, 1000, frozenset())
    await source.aclose()
    if found.removed:
        raise RuntimeError("keys that are there are said to be gone")
    return cost


async def key_order() -> Cost:
    """A poll in the order of keys, of 100 new keys."""
    source = S3KeyOrderSource(bucket=_BUCKET, prefix=_PREFIX, reread=60, client=S3ClientFactory(aws_conn_id=_CONN))
    low = (await source.latest()).cursor
    _stub(add=_NEW)
    async with looped() as cost:
        found = await source.poll(low, 1000, frozenset())
    cost.requests = _stub()
    await source.aclose()
    if found.size != _NEW:
        raise RuntimeError(f"{found.size} keys were found, and {_NEW} are new")
    return cost


async def partitioned() -> Cost:
    """A poll of the partitions of the last week."""
    prefix = _PREFIX + "{date:%Y/%m/%d}/"
    source = S3KeySource(bucket=_BUCKET, prefix=prefix, client=S3ClientFactory(aws_conn_id=_CONN))
    low = dt.datetime.now(dt.UTC) - dt.timedelta(days=7), ""
    _stub()
    async with looped() as cost:
        await source.poll(low, 10_000, frozenset())
    cost.requests = _stub()
    await source.aclose()
    return cost


def _stub(*, add: int = 0, latency: float = LATENCY) -> int:
    connection = json.loads(os.environ[f"AIRFLOW_CONN_{_CONN.upper()}"])
    return Stub(connection["extra"]["endpoint_url"].removeprefix("http://")).reset(latency=latency, add=add)


class DictMemory(Memory):
    """What a store keeps of a source, in this process."""

    def __init__(self) -> None:
        self.pieces: dict[str, bytes] = {}

    async def read(self, *, prefix: str = "", after: str = "", limit: int = 100) -> list[tuple[str, bytes]]:
        """Return pieces in order of their names."""
        await asyncio.sleep(0)
        names = sorted(name for name in self.pieces if name.startswith(prefix) and name > after)
        return [(name, self.pieces[name]) for name in names[:limit]]

    def change(self, pieces: Pieces) -> None:
        """Write and forget."""
        self.pieces |= {name: piece for name, piece in pieces.items() if piece is not None}
        for name in [name for name, piece in pieces.items() if piece is None]:
            self.pieces.pop(name, None)


async def list_keys() -> Cost:
    """``S3Hook.list_keys(from_datetime=...)`` of the Amazon provider, in this thread."""
    hook = S3Hook(aws_conn_id=_CONN)
    hook.list_keys(_BUCKET, prefix=_PREFIX, max_items=1)
    with measured() as cost:
        hook.list_keys(_BUCKET, prefix=_PREFIX, from_datetime=dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
    cost.block_ms, cost.block_wall_ms = cost.cpu * 1000, cost.wall * 1000
    return cost


_RUNS: dict[str, Callable[[], Awaitable[Any]]] = {
    each.__name__: each for each in (paginator, listing, poll, ranges, removals, key_order, partitioned, list_keys)
}


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(_RUNS))
    print(json.dumps(asdict(asyncio.run(_RUNS[parser.parse_args().name]()))))
