"""What ``airflow-incremental bench`` does: times whole poll cycles on a store, and the same without a source.

A cycle is what becomes of one poll that finds something: load, poll, commit, announce, confirm, claim, acknowledge. The
poll waits as a listing of five pages of 50 ms does.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from statistics import median, quantiles
from typing import Any

from airflow_provider_incremental.cli.bench_server import api_over
from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.cli.output import as_json, table
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import ConfigurationError, ConflictError, StoreError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.api.address import is_api

__all__ = ["Poll", "cycle", "finding", "run"]

Poll = Callable[[], Awaitable[Sequence[Any]]]
"""What a source does: return the items that it found."""

_PAGES = (0.05,) * 5
"""Seconds that each page of a poll takes."""

_ITEMS = (1, 300)
_ROUND = 5
_WATCHES = Watches("airflow-incremental bench", "number")
_CONSUMER = "bench"


def finding(items: int, pages: Sequence[float] = ()) -> Poll:
    """Return a poll that finds so many items.

    :param pages: seconds that each page of it takes; none for the operations alone.
    """
    found = [{"key": f"events/2026/01/31/part-{each:09}.parquet", "size": each} for each in range(items)]

    async def poll() -> Sequence[Any]:
        for seconds in pages:
            await asyncio.sleep(seconds)
        return found

    return poll


async def cycle(store: WatermarkStore, key: WatermarkKey, poll: Poll) -> float:
    """Run one cycle on a watermark that only this benchmark uses, and return the seconds that it took.

    :param poll: called once, between load and commit.
    """
    only = Selector(key.asset_name, key.namespace, key.key)
    began = time.perf_counter()
    watermark = await store.load(key)
    if watermark is None:
        msg = f"watermark {key} was deleted while it was measured"
        raise ConflictError(msg)
    found = await poll()
    number = watermark.version + 1
    batch = NewBatch(low=watermark.cursor, high=number, items=found, count=len(found))
    await store.commit(watermark, number, [batch], PollReport())
    due = await store.due(key, 3600.0, inline_bytes=4096)
    await store.begin_announcement(key, due[-1].seq, 0.0)
    await store.confirm(key, [each.id for each in due])
    claim = await store.claim(only, _CONSUMER, uuid.uuid4().hex, 600.0)
    if claim is not None:
        await store.acknowledge(claim)
    return time.perf_counter() - began


def run(given: Namespace) -> tuple[str, int]:
    """Time cycles on one store or two in turns, and return the figures; 1 when it left a watermark behind."""
    left: list[str] = []
    try:
        rows = asyncio.run(_measured(given, left))
    finally:
        for each in left:
            print(each, file=sys.stderr)
    return _shown(given, rows), 1 if left else 0


def _shown(given: Namespace, rows: list[dict[str, object]]) -> str:
    if given.output == "json":
        return as_json(rows)
    names = ("store", "items", "cycle", "p50_ms", "p95_ms", "p99_ms", "cycles_per_s", "overhead_pct")
    return table(names, [[row.get(name, "") for name in names] for row in rows], wide=True)


async def _measured(given: Namespace, left: list[str]) -> list[dict[str, object]]:
    """Return the figures.

    :param left: gets what is to be said of watermarks that could not be deleted, also when the benchmark fails.
    """
    async with AsyncExitStack() as opening:
        urls = await _urls(given, opening)
        stores = [await opening.enter_async_context(opened(url)) for url in urls]
        rows: list[dict[str, object]] = []
        for items in _ITEMS if given.items is None else (given.items,):
            for name, pages in (("whole", _PAGES), ("operations", ())):
                times = await _in_turns(stores, given, finding(items, pages), left)
                rows += [
                    {"store": repr(store), "items": items, "cycle": name} | _figures(each, times[-1])
                    for store, each in zip(stores, times, strict=True)
                ]
        return rows


async def _urls(given: Namespace, opening: AsyncExitStack) -> list[str]:
    """Return the stores that are measured; the overhead is that against the last one."""
    # In a thread: a connection is looked up as outside of an event loop.
    url = await asyncio.to_thread(url_of, given.store)
    if given.mode == "asset-state":
        return [f"{given.mode}:", url]
    if given.mode is None:
        return [url] if given.against is None else [url, await asyncio.to_thread(url_of, given.against)]
    if is_api(url):
        msg = f"--mode {given.mode} measures a database, and the store is itself an API; give --store a database"
        raise ConfigurationError(msg)
    return [url] if given.mode == "direct" else [await opening.enter_async_context(api_over(url)), url]


async def _in_turns(stores: list[WatermarkStore], given: Namespace, poll: Poll, left: list[str]) -> list[list[float]]:
    """Time cycles on each store in short rounds, so that whatever else the machine does meets all of them."""
    keys = [WatermarkKey("airflow-incremental bench", given.namespace, uuid.uuid4().hex) for _ in stores]
    made: list[tuple[WatermarkStore, WatermarkKey]] = []
    times: list[list[float]] = [[] for _ in stores]
    try:
        for store, key in zip(stores, keys, strict=True):
            await store.register(key, _WATCHES)
            made.append((store, key))
            await store.subscribe(Selector(key.asset_name, key.namespace, key.key), _CONSUMER, "earliest")
            await cycle(store, key, poll)  # connects
        for done in range(0, given.repeat, _ROUND):
            for each, (store, key) in zip(times, made, strict=True):
                each += [await cycle(store, key, poll) for _ in range(min(_ROUND, given.repeat - done))]
    finally:  # also when it is interrupted
        for store, key in made:
            left += filter(None, [await _forget(store, key)])
    return times


async def _forget(store: WatermarkStore, key: WatermarkKey) -> str | None:
    """Delete the watermark of a benchmark; return what is to be said when that is not possible."""
    try:
        await store.forget(key)
    except StoreError as error:
        return (
            f"the watermark of this benchmark, {key}, could not be deleted from {store!r}: {error}. Somebody with the "
            f"scope admin can: airflow-incremental forget '{key}' --store STORE"
        )
    return None


def _figures(times: list[float], base: list[float]) -> dict[str, object]:
    cuts = quantiles(times, n=100, method="inclusive")
    figures: dict[str, object] = {
        "p50_ms": round(1000 * median(times), 2),
        "p95_ms": round(1000 * cuts[94], 2),
        "p99_ms": round(1000 * cuts[98], 2),
        "cycles_per_s": round(len(times) / sum(times), 2),
    }
    if times is not base:
        figures["overhead_pct"] = round(100 * (median(times) / median(base) - 1), 2)
    return figures
