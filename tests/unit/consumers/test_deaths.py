"""Workers that die while they hold several batches: dead become those that kill, and none of their neighbours."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental import consume
from airflow_provider_incremental.core.store import Selector
from tests.unit.consumers.log import commit, in_store, waiting

# Python warns of forks while threads run: the pool of the store's driver may have one.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

Run = Callable[..., list[list[int]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a worker of its own that kills itself at some items; return what its body got. Its leases end at once."""

    def live(killers: set[int], **options: Any) -> list[list[int]]:
        got = tmp_path / "got"
        got.write_text("")
        pid = os.fork()
        if pid == 0:
            try:
                for batch in consume("orders", consumer="c", retry_delay=0, **options):
                    with got.open("a") as file:
                        file.write(" ".join(map(str, batch.items)) + "\n")
                    if killers & set(batch.items):
                        os.kill(os.getpid(), signal.SIGKILL)
            finally:
                os._exit(1)
        os.waitpid(pid, 0)
        with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
            connection.execute("UPDATE asset_watermark_claims SET lease_until = claimed_at WHERE state = 'claimed'")
        return [[int(item) for item in line.split()] for line in got.read_text().splitlines()]

    return live


def dead() -> list[int]:
    """What is set aside."""
    return [each.batch.seq for each in in_store(lambda store: store.dead_batches(Selector("orders")))]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 2, 1, 1), (1, 2, 1, 2)])
@pytest.mark.parametrize("killers", [{1}, {2}, {1, 2}, {4}, set()])
@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_dead_become_exactly_those_that_kill_their_worker(
    run: Run, sizes: tuple[int, ...], killers: set[int], max_attempts: int, *, ordered: bool
) -> None:
    """Whoever was in the same hands, in the group or only taken in advance, is processed."""
    commit(*[[seq] * size for seq, size in enumerate(sizes, 1)])
    for _ in range(20):
        run(killers, max_items=2, max_attempts=max_attempts, ordered=ordered)
        if not waiting("c"):
            break
    assert waiting("c") == []
    assert dead() == sorted(killers)


def test_what_killed_its_worker_comes_alone_and_nothing_is_taken_in_advance(run: Run) -> None:
    """Only first attempts are put together: who dies at another one costs no neighbour an attempt."""
    commit([1], [2], [3])
    killer = {1}
    assert run(killer, max_items=9, max_attempts=4) == [[1, 2, 3]]
    assert [run(killer, max_items=9, max_attempts=4) for _ in range(3)] == [[[1]]] * 3
    with closing(consume("orders", consumer="c", max_items=9, max_attempts=4)) as batches:
        assert [(batch.seq, batch.attempt) for batch in batches] == [(2, 2), (3, 2)]
    assert dead() == [1]


@pytest.mark.parametrize("ordered", [False, True])
def test_what_was_tried_before_is_not_held_while_others_are_processed(*, ordered: bool) -> None:
    """It is free until its turn has come, so that no death of its holder costs it an attempt."""
    _, second, _ = commit([1], [2], [3])

    async def fail(store: Any) -> None:
        await store.subscribe(Selector("orders"), "c", "earliest")
        await store.release(await store.claim(Selector("orders"), "c", "before", 60, second), "failed")

    in_store(fail)
    got = []
    for batch in consume("orders", consumer="c", max_items=9, max_batches=3, ordered=ordered):
        free = in_store(lambda store: store.pending(Selector("orders"), "c", free=True))
        got.append((batch.items, batch.attempt, [each.seq for each in free]))
    assert got == [([1], 1, [2, 3]), ([2], 2, [3]), ([3], 1, [])]


def test_of_a_group_that_fails_none_is_set_aside_before_it_came_alone() -> None:
    """Where one attempt is all, that of a group is nobody's."""
    commit([1], [2], [3])
    got = []
    for _ in range(5):
        with contextlib.suppress(ZeroDivisionError):
            for batch in consume("orders", consumer="c", max_items=9, max_attempts=1):
                got.append(batch.items)
                if 2 in batch.items:
                    raise ZeroDivisionError
    assert got == [[1, 2, 3], [1], [2], [3]]
    assert dead() == [2]
