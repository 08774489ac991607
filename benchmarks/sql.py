"""Polls of a large table beside the same query through bare asyncpg, and ``get_records`` of a hook as operators use it.

Fetch to items, on one PostgreSQL, over TCP; the three take turns in short rounds. ``INCREMENTAL_BENCH_ROWS`` is the
size of the table (default 10,000,000, for which the goals are stated), a tenth of it the backlog.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any

import asyncpg
import structlog
from airflow.providers.postgres.hooks.postgres import PostgresHook

from airflow_provider_incremental.sources.sql_arguments import SqlSelection, check_sql_arguments
from airflow_provider_incremental.sources.sql_explain import explained
from airflow_provider_incremental.sources.sql_keyset import low_parameters
from airflow_provider_incremental.sources.sql_plan import plan_of
from airflow_provider_incremental.sources.sql_postgres import PostgresReader
from airflow_provider_incremental.sources.sql_rows import SqlRowSource
from benchmarks import report
from harness import servers
from harness.databases import DatabaseServer

_ROWS = int(os.environ.get("INCREMENTAL_BENCH_ROWS", "10000000"))
_NEW = 1000
_ROUNDS = 60
_STRETCH = 20  # batches between two turns
_TABLE = f"""
CREATE TABLE orders (
    id bigint PRIMARY KEY, customer text NOT NULL, total numeric(12,2) NOT NULL, updated_at timestamptz NOT NULL,
    note text NOT NULL
);
INSERT INTO orders SELECT n, 'customer ' || n % 10000, n % 100000 / 100.0,
    now() - interval '1 hour' - ({_ROWS} - n) * interval '1 millisecond', 'left at the door'
    FROM generate_series(1, {_ROWS}) AS n;
CREATE INDEX orders_by ON orders (updated_at, id);
VACUUM ANALYZE orders;
"""
_BARE = """
SELECT id, customer, total, updated_at, note FROM orders
WHERE (updated_at, id) > ($1, $2) AND updated_at < now() - interval '1 second' ORDER BY updated_at, id LIMIT $3
"""
_HOOK = """
SELECT id, customer, total, updated_at, note FROM orders WHERE (updated_at, id) > (%s, %s)
AND updated_at < now() - interval '1 second' ORDER BY updated_at, id LIMIT %s
"""

Cursor = tuple[Any, ...]
Read = Callable[[Cursor, int], Awaitable[Sequence[Any]]]


def main() -> None:
    """Run everything, print the table, write the figures."""
    file = report.json_file(__doc__ or "")
    with servers.postgres() as server:
        figures = asyncio.run(_measure(server))
    names = {"poll": f"{_NEW:,} new rows, ms", "idle": "nothing new, ms", "drain": "a backlog, rows/s"}
    rows = [
        [label, figures[f"{name}_ours"], figures[f"{name}_bare"], figures.get(f"{name}_hook", "")]
        for name, label in names.items()
    ]
    print(f"a table of {_ROWS:,} rows; the poll reads a range of {figures.pop('index')}")
    print(report.table(["", "our poll", "bare asyncpg", "get_records"], rows))
    print()
    print(report.table(["figure", "value"], [item for item in figures.items() if item[0].endswith("ratio")]))
    report.write("sql", figures, file)


async def _measure(server: DatabaseServer) -> dict[str, Any]:
    login = {"user": server.user, "password": server.password, "database": server.database}
    connection = await asyncpg.connect(host=server.host, port=server.port, **login)
    for statement in filter(str.strip, _TABLE.split(";\n")):
        await connection.execute(statement)

    async def arguments() -> dict[str, Any]:
        return {"host": server.host, "port": server.port, **login}

    reader = PostgresReader(arguments=arguments)
    selection = check_sql_arguments(table="orders", cursor=["updated_at", "id"])
    source = SqlRowSource(reader=reader, conn_id="bench", selection=selection)
    os.environ["AIRFLOW_CONN_BENCH"] = server.url.replace("postgresql", "postgres", 1)
    hook = PostgresHook(postgres_conn_id="bench")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    async def ours(low: Cursor, limit: int) -> Sequence[Any]:
        return (await source.poll(low, limit, frozenset())).items

    async def bare(low: Cursor, limit: int) -> Sequence[Any]:
        rows: Sequence[Any] = await connection.fetch(_BARE, *low, limit + 1)
        return rows

    async def records(low: Cursor, limit: int) -> Sequence[Any]:
        rows: Sequence[Any] = await asyncio.to_thread(hook.get_records, _HOOK, (*low, limit + 1))
        return rows

    readers = {"ours": ours, "bare": bare, "hook": records}
    low, end = [
        tuple(await connection.fetchrow("SELECT updated_at, id FROM orders WHERE id = $1", number))
        for number in (_ROWS - _NEW, _ROWS)
    ]
    index = await _index(reader, selection, low)
    times = await _alternate(readers, low, end)
    times |= await _drain({name: readers[name] for name in ("ours", "bare")}, connection)
    await source.aclose()
    await connection.close()
    ratios = {
        "poll_ratio": times["poll_ours"] / times["poll_bare"],
        "idle_ratio": times["idle_ours"] / times["idle_bare"],
        "drain_ratio": times["drain_ours"] / times["drain_bare"],
    }
    return {**ratios, **times, "index": index}


async def _index(reader: PostgresReader, selection: SqlSelection, low: Cursor) -> str:
    """Return the index that a poll reads a range of; fail when it reads anything else."""
    plan = plan_of(selection, await reader.describe(selection))
    edge = {"cursor_edge_0": low[0]}
    told = await explained(reader, plan.keyset.above(len(low), _NEW + 1, "instant"), low_parameters(low) | edge)
    if told.scanned or told.sorts or told.indexes != ("orders_by",):
        msg = f"the poll does not read a range of its index: {told}"
        raise AssertionError(msg)
    return told.indexes[0]


async def _alternate(readers: dict[str, Read], low: Cursor, end: Cursor) -> dict[str, float]:
    """Return the median milliseconds of a poll with new rows after an idle one, and of an idle one after another."""
    times: dict[str, list[float]] = {}
    for turn in range(_ROUNDS):
        for name in list(readers) if turn % 2 else list(readers)[::-1]:
            for what, cursor, count in (("first", end, 0), *[("idle", end, 0)] * 5, ("poll", low, _NEW)):
                begun = time.perf_counter()
                rows = await readers[name](cursor, _NEW)
                times.setdefault(f"{what}_{name}", []).append((time.perf_counter() - begun) * 1000)
                if len(rows) != count:
                    raise AssertionError(f"{name} found {len(rows)} rows in place of {count}")
    return {name: median(each) for name, each in times.items() if not name.startswith("first")}


async def _drain(readers: dict[str, Read], connection: Any) -> dict[str, float]:
    """Return the rows a second at which the last tenth of the table is read in batches."""
    first = _ROWS - _ROWS // 10
    start = tuple(await connection.fetchrow("SELECT updated_at, id FROM orders WHERE id = $1", first))
    at = dict.fromkeys(readers, start)
    spent, read = dict.fromkeys(readers, 0.0), dict.fromkeys(readers, 0)
    while any(count < _ROWS // 10 for count in read.values()):
        for name, reader in readers.items():
            for _ in range(_STRETCH):
                begun = time.perf_counter()
                rows = (await reader(at[name], _NEW))[:_NEW]
                spent[name] += time.perf_counter() - begun
                if not rows:
                    break
                read[name] += len(rows)
                at[name] = (rows[-1]["updated_at"], rows[-1]["id"])
    return {f"drain_{name}": read[name] / spent[name] for name in readers}


if __name__ == "__main__":
    main()
