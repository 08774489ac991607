"""A consumer is killed at every line of its loop, on a real database: what it held comes again, and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.stores.registry import shared_store
from tests.integration import dying_consumer

KEY = WatermarkKey("orders")
RANDOM_DEATHS = 30
# Of these, every single line: the loop, the claim and its keeper, the thread that they run in.
EVERY_LINE = ("consumers/", "core/intake.py", "core/order.py", "wiring/sync.py", "dying_consumer.py")


class Stage:
    """A store with batches for the consumer, and the consumer."""

    def __init__(self, url: str, journal: Path) -> None:
        self.url = url
        self.batches = 0
        self.killed = 0
        self._journal = journal
        root = Path(__file__).parents[2]
        self._consumer = subprocess.Popen(
            [sys.executable, "-m", dying_consumer.__name__, str(journal)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=os.environ | {"AIRFLOW__INCREMENTAL__STORE": url},
        )

    def live(self, *, batches: int = 3, **order: Any) -> list[list[Any]]:
        """Give the consumer something to do, and let it work until the line that is its last; return what it passed."""
        if batches:
            asyncio.run(self._commit(batches))
        self._end_leases()
        assert self._consumer.stdin is not None
        assert self._consumer.stdout is not None
        self._consumer.stdin.write(f"{json.dumps(order)}\n")
        self._consumer.stdin.flush()
        answer = json.loads(self._consumer.stdout.readline())
        assert answer["killed"] or answer["status"] == 0
        self.killed += answer["killed"]
        return answer["passed"]

    async def _commit(self, count: int) -> None:
        async with shared_store(self.url) as store:
            watermark = await store.register(KEY, Watches("numbers", "n"))
            numbers = range(self.batches + 1, self.batches + count + 1)
            new = [NewBatch(low=number - 1, high=number, items=[number], count=1) for number in numbers]
            await store.commit(watermark, numbers[-1], new, PollReport())
            self.batches += count

    def _end_leases(self) -> None:
        """Let all leases have run out."""
        with closing(psycopg2.connect(self.url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(
                "UPDATE asset_watermark_claims SET lease_until = now() - interval '1 s' WHERE state = 'claimed'"
            )

    def waiting(self) -> list[int]:
        """The batches that the consumer has not acknowledged."""

        async def work() -> list[int]:
            async with shared_store(self.url) as store:
                return [batch.seq for batch in await store.pending(Selector("orders"), "load")]

        return asyncio.run(work())

    def claims(self, state: str) -> dict[int, int]:
        """How often each batch was tried that is in a state now."""
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT seq, attempt FROM asset_watermark_claims WHERE state = %s", (state,))
            return dict(cursor.fetchall())

    def notes(self) -> list[dict[str, Any]]:
        """What all lives have noted."""
        return [json.loads(line) for line in self._journal.read_text().splitlines()]

    def close(self) -> None:
        """End the consumer."""
        assert self._consumer.stdin is not None
        assert self._consumer.stdout is not None
        self._consumer.stdin.close()
        self._consumer.stdout.close()
        self._consumer.wait(30)


@pytest.fixture
def stage(postgres_database: str, tmp_path: Path) -> Any:
    """A migrated store."""
    asyncio.run(upgrade(postgres_database))
    stage = Stage(postgres_database, tmp_path / "journal")
    yield stage
    stage.close()


@pytest.mark.timeout(600)
def test_killed_at_every_line_of_its_loop(stage: Stage, record_property: Callable[[str, object], None]) -> None:
    """All batches are acknowledged in the end; only a batch in the hands of who was killed was processed twice."""
    seed = random.randrange(10**6)
    record_property("seed", seed)
    chance = random.Random(seed)
    lines = stage.live()
    loop = [line for line in lines if any(part in line[0] for part in EVERY_LINE)]
    assert len(loop) > 60
    for name, line, times in loop:
        stage.live(at=[name, line, chance.randint(1, times)])
    for _ in range(RANDOM_DEATHS):
        stage.live(after=chance.randint(1, sum(times for _, _, times in lines)))
    assert stage.killed > len(loop) * 0.9  # what a life passes differs a little from the first one
    stage.live()
    assert stage.waiting() == [], f"seed {seed}"

    processed: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for note in stage.notes():
        if note["what"] == "processed":
            processed[note["seq"]].append(note)
    assert sorted(processed) == list(range(1, stage.batches + 1)), f"seed {seed}"
    acknowledged = {(note["seq"], note["pid"]) for note in stage.notes() if note["what"] == "acknowledged"}
    for seq, notes in processed.items():
        pids = [note["pid"] for note in notes]
        assert len(set(pids)) == len(pids), f"batch {seq} twice in one life; seed {seed}"
        # Each life but the last was killed while it held the batch: it took nothing after it, and had not finished it.
        for pid in pids[:-1]:
            last = [note["seq"] for note in stage.notes() if note["pid"] == pid][-1]
            assert last == seq, f"batch {seq} came again, but {pid} had gone on to {last}; seed {seed}"
            assert (seq, pid) not in acknowledged, f"batch {seq} came again after its acknowledgement; seed {seed}"


@pytest.mark.timeout(600)
def test_dead_are_exactly_the_batches_that_failed_every_time(
    stage: Stage, record_property: Callable[[str, object], None]
) -> None:
    """Those that the body always refuses, and one that had its worker killed at every attempt; all others are done."""
    seed = random.randrange(10**6)
    record_property("seed", seed)
    chance = random.Random(seed)
    order = {"refused": 20, "max_attempts": 4}
    lines = sum(times for _, _, times in stage.live(**order))
    for _ in range(RANDOM_DEATHS):
        stage.live(after=chance.randint(1, lines), **order)
    while stage.waiting():
        stage.live(batches=0, **order)
    dead = stage.claims("dead")
    refused = {number for number in range(1, stage.batches + 1) if number % 20 == 0}
    assert refused <= dead.keys(), f"seed {seed}"
    assert set(dead.values()) == {4}, f"seed {seed}"
    assert dead.keys() | stage.claims("acknowledged").keys() == set(range(1, stage.batches + 1)), f"seed {seed}"
    # Who noted that it took a batch, and went on to another, was not killed with it in its hands.
    takers = [(note["pid"], note["seq"]) for note in stage.notes() if note["what"] == "took"]
    for (pid, seq), (next_pid, _) in pairwise(takers):
        assert seq not in dead or seq in refused or pid != next_pid, (
            f"batch {seq} is dead, but {pid} lived; seed {seed}"
        )
