"""S3 listings: ours beside the stock paginator of aiobotocore and ``S3Hook.list_keys`` of the Amazon provider."""

from __future__ import annotations

from benchmarks import report
from benchmarks.s3_meter import Cost
from benchmarks.s3_runs import run
from benchmarks.s3_stub import LATENCY, running

_KEYS = 1_000_000
_KEYS_CPU = 200_000
_PARTITIONS = 8  # a week, from one time of the day to the same
_OF_ALL_KEYS = ("poll", "ranges", "removals")
_NAMES = {
    "paginator": "aiobotocore's paginator",
    "list_keys": "S3Hook.list_keys(from_datetime=...)",
    "listing": "our listing, page by page",
    "poll": "our poll, first batch of 1,000",
    "ranges": "our poll in 16 ranges",
    "removals": "the same, with removals=True",
    "key_order": 'order="key", 100 new keys',
    "partitioned": "partitions of a week",
}


def main() -> None:
    """Run everything, print the table, write the figures."""
    file = report.json_file(__doc__ or "")
    with running(_KEYS_CPU) as stub:
        stub.reset()
        cpu = {name: run(name, stub.url) for name in ("paginator", "listing")}
    with running(_KEYS) as stub:
        costs = {name: run(name, stub.url) for name in _NAMES}
    print(f"{_KEYS:,} keys, {LATENCY * 1000:.0f} ms a page")
    print(_table(costs, _KEYS))
    print(f"\n{_KEYS_CPU:,} keys, no latency")
    print(_table(cpu, _KEYS_CPU))
    figures = {
        "cpu_ratio": cpu["paginator"].cpu / cpu["listing"].cpu,
        "wall_ratio": costs["paginator"].wall / costs["ranges"].wall,
        "list_calls_key_order": costs["key_order"].requests,
        "list_calls_partitioned": costs["partitioned"].requests,
        "partitions": _PARTITIONS,
        "peak_growth_mb": max(costs[name].peak_mb for name in _OF_ALL_KEYS),
        "max_loop_block_ms": max(costs[name].block_ms for name in _OF_ALL_KEYS),
    }
    print()
    print(report.table(["figure", "value"], list(figures.items())))
    report.write("s3", figures, file)


def _table(costs: dict[str, Cost], keys: int) -> str:
    head = ["", "wall s", "CPU ms / 1,000 keys", "peak memory MB", "loop block ms", "the same, by the clock"]
    rows = [
        [_NAMES[name], cost.wall, cost.cpu * 1_000_000 / keys, cost.peak_mb, cost.block_ms, cost.block_wall_ms]
        for name, cost in costs.items()
    ]
    return report.table(head, rows)


if __name__ == "__main__":
    main()
