"""A process that is forked in the middle of a loop over batches: it ends, and leaves them to its parent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from airflow_provider_incremental import consume
from airflow_provider_incremental.core.errors import StoreError
from tests.unit.consumers.log import commit, waiting

# Python warns of forks while threads run: that is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

_HANGS = -1


def result_of(pid: int) -> int:
    """Wait for a child's exit code; one that hangs is killed."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)  # between two looks
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return _HANGS


def forked_in_loop(in_child: Callable[[], bool]) -> list[int]:
    """Process all batches, fork in each turn, and return how the children ended.

    :param in_child: called in each child; whether that leaves the loop.
    """
    parent, results = os.getpid(), []
    code = 1
    try:
        for _ in consume("orders", consumer="c"):
            pid = os.fork()
            if pid == 0 and in_child():
                break
            if pid:
                results.append(result_of(pid))
        code = 0
    except StoreError:
        code = 2
    except ZeroDivisionError:
        code = 3
    finally:
        if os.getpid() != parent:
            os._exit(code)
    return results


def fail() -> bool:
    """Raise."""
    raise ZeroDivisionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("in_child", "code"), [(lambda: True, 0), (lambda: False, 2), (fail, 3)], ids=["leaves", "goes on", "raises"]
)
def test_a_forked_child_ends_and_gives_nothing_back(in_child: Callable[[], bool], code: int) -> None:
    """It has the loop, but neither its event loop's thread nor the batch: going on with either is refused."""
    commit([1], [2])
    assert forked_in_loop(in_child) == [code, code]
    assert waiting("c") == []


def test_a_forked_child_may_consume_for_itself() -> None:
    """It opens a store of its own, as its parent's goes on."""
    commit([1], [2])

    def of_its_own() -> bool:
        items = [batch.items for batch in consume("orders", consumer=f"child {os.getpid()}")]
        os._exit(0 if items == [[1], [2]] else 9)

    assert forked_in_loop(of_its_own) == [0, 0]
    assert waiting("c") == []
