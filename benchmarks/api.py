"""The price of the API: whole poll cycles and bare operations through it, beside the same ones on the database.

A cycle is what becomes of one poll that finds something: load, poll, commit, announce, confirm, claim, acknowledge. The
poll is one of the S3 source: it lists five pages of a stub that takes 50 ms for each. Both take turns, on one
PostgreSQL and one machine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any

from aiobotocore.session import get_session

from airflow_provider_incremental.cli.bench import Poll, cycle, finding
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.sources import s3_parser
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.stores.api.store import ApiStore, api_store
from airflow_provider_incremental.stores.sql.store import SqlStore
from benchmarks import report, s3_stub
from harness import servers
from harness.processes import free_ports, run, serving

_CYCLES, _ROUNDS = 6, 5
_KEYS = 5000  # five pages
_BARE = 150
_TRIGGERS, _INTERVAL, _LOAD_SECONDS, _SETTLE = 500, 10.0, 30.0, 5.0
_WATCHES = Watches("a listing", "key")
_NOTHING = PollReport()

Timed = dict[str, list[float]]


def main() -> None:
    """Run everything, print the table, write the figures."""
    file = report.json_file(__doc__ or "")
    with servers.postgres() as server, TemporaryDirectory() as folder:
        database = server.create_database()
        asyncio.run(upgrade(database))
        program = Path(sys.executable).with_name("airflow-incremental")
        tokens, (port,) = Path(folder, "tokens.json"), free_ports(1)
        token = run([program, "api-token", tokens, "--name", "bench", "--scope", "read", "--scope", "write"]).strip()
        command = [program, "api-server", "--store", database, "--tokens", tokens, "--port", str(port)]
        os.environ["AIRFLOW_HOME"] = folder
        served = serving("api-server", command, home=Path(folder), ready=lambda: _listens(port))
        with served, s3_stub.running(_KEYS) as stub:
            figures = asyncio.run(_measure(database, f"api+http://:{token}@127.0.0.1:{port}", stub.url))
    print(report.table(["figure", "value"], list(figures.items())))
    report.write("api", figures, file)


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def _measure(database: str, api: str, stub: str) -> dict[str, float]:
    direct, through = SqlStore(url=database), api_store(api)
    figures: dict[str, float] = {}
    async with _client(stub) as client:
        for name, items in (("small", 1), ("300", 300)):
            cycles = await _in_turns(direct, through, partial(_cycle, poll=_listing(client, items)), _CYCLES)
            both = {mode: median(times) for mode, times in cycles.items()}
            figures |= {f"{mode}_cycle_{name}_ms": 1000 * seconds for mode, seconds in both.items()}
            figures[f"overhead_{name}_pct"] = 100 * (both["api"] / both["direct"] - 1)
            bare = await _in_turns(direct, through, partial(_cycle, poll=finding(items)), _CYCLES)
            figures |= {f"{mode}_bare_cycle_{name}_ms": 1000 * median(times) for mode, times in bare.items()}
    operations = await _in_turns(direct, through, _operation, _BARE)
    figures |= {f"{mode}_op_ms": 1000 * median(times) for mode, times in operations.items()}
    figures["op_ratio"] = median(operations["api"]) / median(operations["direct"])
    figures |= await _under_load(through)
    await direct.aclose()
    await through.aclose()
    return figures


def _client(stub: str) -> Any:
    login = {"aws_access_key_id": "access", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    session = get_session()
    s3_parser.install(session)
    return session.create_client("s3", endpoint_url=stub, **login)


def _listing(client: Any, items: int) -> Poll:
    """Return a poll that lists the whole stub, page after page, and takes its first objects."""

    async def poll() -> Sequence[Any]:
        # A new source has not learned yet how to list in several ranges at once.
        source = S3KeySource(bucket="stub", prefix="events/", client=client)
        found = (await source.poll(None, items, frozenset())).items
        if len(found) != items:
            raise RuntimeError(f"the listing found {len(found)} objects in place of {items}")
        return found

    return poll


async def _in_turns(
    direct: WatermarkStore, through: WatermarkStore, work: Callable[[WatermarkStore], Awaitable[float]], times: int
) -> Timed:
    """Time work on both stores, in short rounds, so that whatever else the machine does meets both."""
    timed: Timed = {"direct": [], "api": []}
    for number in range(_ROUNDS):
        for mode, store in (("direct", direct), ("api", through))[:: 1 if number % 2 else -1]:
            timed[mode] += [await work(store) for _ in range(times)]
    return timed


async def _cycle(store: WatermarkStore, *, poll: Poll) -> float:
    """Return the seconds that a whole cycle takes, on a watermark of its own."""
    key = WatermarkKey("bench", "default", uuid.uuid4().hex)
    await store.register(key, _WATCHES)
    await store.subscribe(Selector("bench", "default", key.key), "bench", "earliest")
    return await cycle(store, key, poll)


async def _operation(store: WatermarkStore) -> float:
    """Return the seconds of one small operation that reads."""
    began = time.perf_counter()
    await store.load(WatermarkKey("bench"))
    return time.perf_counter() - began


async def _under_load(store: Any) -> dict[str, float]:
    """Let as many triggers as a big deployment has poll through one client; every tenth poll finds something."""
    times: list[float] = []
    errors = 0
    client: ApiStore = store

    async def timed(operation: Awaitable[Any]) -> Any:
        nonlocal errors
        began = time.perf_counter()
        try:
            return await operation
        except Exception as error:
            errors += 1
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            times.append(time.perf_counter() - began)

    async def trigger(number: int) -> None:
        key = WatermarkKey("load", "default", str(number))
        watermark = await store.register(key, _WATCHES)
        await asyncio.sleep(random.uniform(_SETTLE, _SETTLE + _INTERVAL))
        for polls in itertools.count(1):
            if (polls + number) % 10:
                await timed(store.report(key, _NOTHING))
            else:
                batch = NewBatch(low=None, high=polls, items=["a"], count=1)
                watermark, _ = await timed(store.commit(watermark, polls, [batch], _NOTHING))
            if due := await timed(store.due(key, 3600)):
                await timed(store.begin_announcement(key, due[-1].seq, 0.0))
                await timed(store.confirm(key, [each.id for each in due]))
            await asyncio.sleep(_INTERVAL)

    triggers = [asyncio.create_task(trigger(number)) for number in range(_TRIGGERS)]
    await asyncio.sleep(_SETTLE + _INTERVAL)
    before, began = client.requests, time.perf_counter()
    times.clear()
    await asyncio.sleep(_LOAD_SECONDS)
    sent, lasted = client.requests - before, time.perf_counter() - began
    for task in triggers:
        task.cancel()
    await asyncio.gather(*triggers, return_exceptions=True)
    return {
        "http_requests_per_s": sent / lasted,
        "ops_per_s": len(times) / lasted,
        "errors": float(errors),
        "op_p50_ms": 1000 * median(times),
        "op_p99_ms": 1000 * quantiles(times, n=100)[98],
    }


if __name__ == "__main__":
    main()
