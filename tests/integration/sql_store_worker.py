"""A process of its own that works on a store: commits to it, or claims from it, until there is nothing left to do."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConflictError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.registry import shared_store
from airflow_provider_incremental.stores.sql.store import SqlStore

KEY = WatermarkKey("orders")
ASSET = Selector("orders")
LAST = "last"


async def write(store: SqlStore, until: int) -> list[int]:
    """Append one number after another until the log holds so many; return those that this process appended."""
    mine = []
    await store.register(KEY, Watches("numbers", "n"))
    while (watermark := await store.load(KEY)) and (watermark.cursor or 0) < until:
        number = (watermark.cursor or 0) + 1
        batch = NewBatch(low=watermark.cursor, high=number, items=[number], count=1)
        try:
            await store.commit(watermark, number, [batch], PollReport())
        except ConflictError:
            continue
        mine.append(number)
    return mine


async def read(store: SqlStore, until: int) -> list[int]:
    """Claim and acknowledge until the consumer has finished so many batches; return those of this process."""
    mine = []
    while True:
        await store.subscribe(ASSET, "load", "earliest")
        claim = await store.claim(ASSET, "load", f"{os.getpid()}-{len(mine)}", 600)
        if claim is None:
            watermark = await store.load(KEY)
            waiting = await store.pending(ASSET, "load")
            if watermark and watermark.cursor == until and not waiting:
                return mine
            await asyncio.sleep(0.01)
            continue
        await store.acknowledge(claim)
        mine += claim.batch.items or []


async def work(url: str, act: str, until: int) -> None:
    """Do one of the two, and print what was done."""
    async with shared_store(url) as store:
        assert isinstance(store, SqlStore)
        sys.stdout.write(json.dumps(await (write if act == "write" else read)(store, until)))


async def load(url: str) -> tuple[int, int]:
    """Open the shared store and use it; return its identity as an object, and how many watermarks it has."""
    async with shared_store(url) as store:
        return id(store), len(await store.list_watermarks())


async def fork(url: str) -> None:
    """Use a store, fork, use it in the child by the registry, and go on in the parent as if nothing had happened."""
    async with shared_store(url) as store:
        await store.register(KEY, Watches("numbers", "n"))
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            # The child of a running loop: it starts with one of its own, as Airflow's task processes do.
            asyncio._set_running_loop(None)
            other, count = asyncio.new_event_loop().run_until_complete(load(url))
            os.write(writing, json.dumps([other == id(store), count]).encode())
            os._exit(0)
        await asyncio.to_thread(os.waitpid, child, 0)
        shared, count = json.loads(os.read(reading, 100))
        sys.stdout.write(json.dumps([shared, count, len(await store.list_watermarks())]))


if __name__ == "__main__":
    if sys.argv[2] == "fork":
        asyncio.run(fork(sys.argv[1]))
    else:
        asyncio.run(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
