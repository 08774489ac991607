"""Commits to the store, beside one statement through bare asyncpg and Airflow's own asset state store.

A commit is the move of a watermark and one batch of ten items, by one writer, on one PostgreSQL, over TCP. The three
take turns in short rounds, so that whatever else the machine does meets all of them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.watermark import PollReport, Watches, Watermark, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.stores.sql.store import SqlStore
from benchmarks import report
from harness import servers
from harness.deployment import AirflowDeployment

_ROUNDS = 9
_SECONDS = 1.5
_ITEMS = [
    {
        "id": 1000 + number,
        "customer": f"customer {number}",
        "total": Decimal("19.90"),
        "updated_at": dt.datetime(2026, 1, 1, 12, 0, 0, number, tzinfo=dt.UTC),
        "note": "left at the door",
    }
    for number in range(10)
]
_STATEMENT = """
WITH moved AS (
    UPDATE asset_watermarks SET cursor = $3, version = version + 1, last_seq = last_seq + 1, moved_at = $4,
        last_poll_at = $4, last_error = NULL, failures = 0, note = NULL
    WHERE id = $1 AND version = $2
    RETURNING id, version, last_seq
), appended AS (
    INSERT INTO asset_watermark_batches
        (watermark_id, seq, id, kind, low, high, count, items, items_bytes, fingerprints, committed_at)
    SELECT id, last_seq, $5, 'added', $6, $7, $8, $9, $10, $11, $4 FROM moved
)
SELECT version FROM moved
"""

Commit = Callable[[], Awaitable[None]]


def main() -> None:
    """Run everything, print the table, write the figures."""
    file = report.json_file(__doc__ or "")
    with servers.postgres() as server, TemporaryDirectory() as folder:
        metadata, store = server.create_database(), server.create_database()
        environment = {"INCREMENTAL_BENCH_FOLDER": folder}
        dags = Path(__file__).with_name("dags")
        with AirflowDeployment(metadata, dags=dags, environment=environment) as airflow:
            airflow.unpause("asset_state_bench")
            rounds = asyncio.run(_measure(store, _AssetState(airflow, Path(folder))))
    figures = {name: median(each[name] for each in rounds) for name in rounds[0]}
    figures["ratio_vs_asyncpg"] = _ratio(rounds, "asyncpg_per_s")
    figures["ratio_vs_asset_state"] = _ratio(rounds, "asset_state_per_s")
    print(_table(rounds, figures))
    report.write("store", figures, file)


class _AssetState:
    """Airflow's asset state store, as a trigger in a real triggerer uses it."""

    def __init__(self, airflow: AirflowDeployment, folder: Path) -> None:
        self._airflow = airflow
        self._folder = folder

    def rate(self, name: str, seconds: float) -> float:
        """Let the trigger set a cursor for so many seconds, and return how often it did."""
        value = values.dumps((_ITEMS[-1]["updated_at"], 0))
        unfinished = self._folder / f"{name}.tmp"
        unfinished.write_text(json.dumps({"seconds": seconds, "value": value}))
        unfinished.rename(unfinished.with_suffix(".go"))
        answer = self._folder / f"{name}.json"
        self._airflow.wait_for(f"the trigger answers in {answer}", answer.exists, timeout=seconds + 120)
        rate: float = json.loads(answer.read_text())["per_s"]
        return rate


async def _measure(url: str, asset_state: _AssetState) -> list[dict[str, float]]:
    """Let the three take turns; the first round only warms up."""
    await upgrade(url)
    store = SqlStore(url=url)
    connection = await asyncpg.connect(url)
    try:
        ours, bare = await _ours(store), await _bare(store, connection)
        rounds = []
        for number in range(_ROUNDS + 1):
            order = [("commits_per_s", ours), ("asyncpg_per_s", bare)]
            rates = {name: await _rate(commit) for name, commit in (order if number % 2 else reversed(order))}
            rates["asset_state_per_s"] = await asyncio.to_thread(asset_state.rate, f"round{number}", _SECONDS)
            rounds.append({name: rates[name] for name in ("commits_per_s", "asyncpg_per_s", "asset_state_per_s")})
        return rounds[1:]
    finally:
        await connection.close()
        await store.aclose()


async def _rate(commit: Commit) -> float:
    done = 0
    began = time.perf_counter()
    while (passed := time.perf_counter() - began) < _SECONDS:
        await commit()
        done += 1
    return done / passed


async def _registered(store: SqlStore, asset_name: str) -> Watermark:
    return await store.register(WatermarkKey(asset_name), Watches("table orders", "updated_at, id"))


async def _ours(store: SqlStore) -> Commit:
    """Return a commit through the store."""
    watermark = await _registered(store, "ours")

    async def commit() -> None:
        nonlocal watermark
        high = (dt.datetime.now(dt.UTC), watermark.version)
        batch = NewBatch(low=watermark.cursor, high=high, items=_ITEMS, count=len(_ITEMS))
        watermark, _ = await store.commit(watermark, high, [batch], PollReport())

    return commit


async def _bare(store: SqlStore, connection: Any) -> Commit:
    """Return the same as one statement on a connection that is kept, written by hand."""
    watermark = await _registered(store, "bare")
    version, low = watermark.version, None

    async def commit() -> None:
        nonlocal version, low
        now = dt.datetime.now(dt.UTC)
        high = (now, version)
        items = values.dumps(_ITEMS)
        row = await connection.fetchrow(
            _STATEMENT,
            watermark.key.id,
            version,
            values.dumps(high),
            now,
            uuid.uuid4().hex,
            values.dumps(low),
            values.dumps(high),
            len(_ITEMS),
            items,
            len(items),
            b"",
        )
        version, low = row["version"], high

    return commit


def _ratio(rounds: list[dict[str, float]], peer: str) -> float:
    return median(each["commits_per_s"] / each[peer] for each in rounds)


def _table(rounds: list[dict[str, float]], figures: dict[str, float]) -> str:
    names = {
        "commits_per_s": "store.commit",
        "asyncpg_per_s": "one statement, bare asyncpg",
        "asset_state_per_s": "Airflow's asset state store, set",
    }
    rows = [
        [text, figures[name], min(each[name] for each in rounds), max(each[name] for each in rounds), "", ""]
        for name, text in names.items()
    ]
    rows[1][4], rows[2][4] = figures["ratio_vs_asyncpg"], figures["ratio_vs_asset_state"]
    rows[1][5], rows[2][5] = "at least 0.4", "at least 15"
    return report.table(["", "per second", "slowest round", "fastest round", "ours to it", "goal"], rows)


if __name__ == "__main__":
    main()
