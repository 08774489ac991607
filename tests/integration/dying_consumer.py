"""A consumer that kills itself at a line of its loop, of the package's or of its own: forked anew for each line.

Reads one JSON line for each life: where it dies, ``{"at": [file, line, times]}`` or ``{"after": lines}``, if at all;
which numbers it refuses, ``{"refused": 9}`` for every ninth; how often a batch is tried, ``{"max_attempts": 4}``.
Answers with one JSON line: whether it was killed, and which lines it passed when it was not.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import airflow_provider_incremental
from airflow_provider_incremental import consume

PACKAGE = str(Path(airflow_provider_incremental.__file__).parent)
Tracer = Callable[[FrameType, str, Any], Any]


def note(file: int, what: str, batch: Any) -> None:
    """Write one line down, at once."""
    form = {"what": what, "seq": batch.seq, "attempt": batch.attempt, "pid": os.getpid(), "items": batch.items}
    os.write(file, f"{json.dumps(form)}\n".encode())


class RefusedError(Exception):
    """The body cannot process this batch, whenever it comes."""


def process(order: dict[str, Any], file: int) -> None:
    """Process all batches that wait; every other one is acknowledged explicitly."""
    for batch in consume("orders", consumer="load", max_attempts=order.get("max_attempts")):
        note(file, "took", batch)
        if "refused" in order and batch.items[0] % order["refused"] == 0:
            raise RefusedError
        note(file, "processed", batch)
        if batch.seq % 2:
            batch.acknowledge()
            note(file, "acknowledged", batch)


class Lines:
    """Counts the lines that pass, and kills the process at the one that is asked for."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.passed: Counter[tuple[str, int]] = Counter()
        self._number = 0
        self._order = order

    def trace(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        """Follow the package and this module only."""
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) and name != __file__:
            return None
        if event == "line":
            self._number += 1
            self.passed[name, frame.f_lineno] += 1
            if self._is_last((name, frame.f_lineno)):
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace

    def _is_last(self, line: tuple[str, int]) -> bool:
        if "at" in self._order:
            *at, times = self._order["at"]
            return line == tuple(at) and self.passed[line] == times
        return self._number == self._order.get("after")


def live(order: dict[str, Any], file: int) -> list[list[Any]]:
    """Process under the tracer, and return the lines that were passed."""
    lines = Lines(order)
    threading.settrace(lines.trace)
    sys.settrace(lines.trace)
    with suppress(RefusedError):
        process(order, file)
    sys.settrace(None)
    return [[name, line, times] for (name, line), times in lines.passed.items()]


def main(journal: str) -> None:
    """Fork a consumer for each order."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Airflow logs to the standard output
    for text in sys.stdin:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 1
            try:
                passed = live(json.loads(text), file)
                with os.fdopen(writing, "w") as answer:
                    json.dump(passed, answer)
                status = 0
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as answer:
            passed = json.loads(answer.read() or "[]")
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        answers.write(json.dumps({"killed": killed, "status": status, "passed": passed}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
