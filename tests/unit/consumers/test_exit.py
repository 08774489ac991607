"""A process that ends while a loop over batches is still referred to: it ends, and gives the batch back."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import airflow_provider_incremental
from airflow_provider_incremental import consume
from tests.unit.consumers.log import commit, waiting

SETUP = """
import os, sys, threading, asyncio
from airflow_provider_incremental import PendingBatch, consume, pending_batches
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.wiring import sync
"""
KEPT_BY_NAME = """
batches = consume("orders", consumer="c")
next(batches)
"""
KEPT_BY_ERROR = """
def task():
    batches = consume("orders", consumer="c")
    for batch in batches:
        raise ZeroDivisionError

try:
    task()
except ZeroDivisionError as error:
    kept = error
"""
KEPT_BLOCK = """
[first, _] = pending_batches("orders", consumer="c")
block = PendingBatch.from_json(first).processing()
block.__enter__()
"""
NO_ANSWER = """
async def never(self, *given, **how):
    await asyncio.Event().wait()

SqlStore.release = never
sync.AT_EXIT = 0.5
"""
BLOCKED = """
async def block(self, *given, **how):
    threading.Event().wait()

SqlStore.release = block
sync.AT_EXIT = 0.5
"""
FORKED = """
batches = consume("orders", consumer="c")
next(batches)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
IN_A_THREAD = """
def work():
    for batch in consume("orders", consumer="c"):
        threading.main_thread().join()

threading.Thread(target=work).start()
"""


def run(*script: str) -> str:
    """Run a program to its end, which it must reach by itself, and return what it wrote."""
    environment = os.environ | {"PYTHONPATH": str(Path(airflow_provider_incremental.__file__).parents[1])}
    command = [sys.executable, "-c", SETUP + "".join(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("script", [KEPT_BY_NAME, KEPT_BY_ERROR, FORKED], ids=["name", "error", "forked"])
def test_the_batch_is_given_back_when_the_process_ends(script: str) -> None:
    """As when the loop is left by an error; a forked child leaves it to its parent."""
    commit([1], [2])
    run(script)
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(1, 2), (2, 1)]


@pytest.mark.parametrize("store", [NO_ANSWER, BLOCKED], ids=["no answer", "blocked"])
def test_a_store_that_does_not_answer_holds_up_no_end(store: str) -> None:
    """After some seconds the process ends; the batch is free when its lease ends."""
    commit([1], [2])
    assert "the store did not answer before the process ended" in run(store, KEPT_BY_NAME)
    assert waiting("c") == [1, 2]
    assert [batch.seq for batch in consume("orders", consumer="c")] == [2]


def test_a_block_that_was_never_left_holds_up_no_end() -> None:
    """Of ``processing()`` as well; the batch is free when its lease ends."""
    commit([1], [2])
    run(KEPT_BLOCK)
    assert waiting("c") == [1, 2]


def test_threads_finish_their_loops_after_the_main_one() -> None:
    """A program ends when all of its threads have: nothing is taken from them."""
    commit([1], [2])
    run(IN_A_THREAD)
    assert waiting("c") == []


def test_a_loop_that_is_closed_gives_its_batch_back_whoever_refers_to_it() -> None:
    """``contextlib.closing`` needs no garbage collector."""
    commit([1])
    kept = []

    def task() -> None:
        with closing(consume("orders", consumer="c")) as batches:
            kept.append(batches)
            next(batches)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        task()
    assert [(batch.seq, batch.attempt) for batch in consume("orders", consumer="c")] == [(1, 2)]
