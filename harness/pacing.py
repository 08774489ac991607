"""A writer's pace: how load is spread over time. Never a way to wait for something."""

from __future__ import annotations

import time
from collections.abc import Iterator

__all__ = ["steadily"]


def steadily(*, times: int, seconds: float) -> Iterator[int]:
    """Yield so often, each time so many seconds after the time before, however long the loop's body takes."""
    start = time.monotonic()
    for number in range(times):
        time.sleep(max(start + number * seconds - time.monotonic(), 0))
        yield number
