"""What is wrong at present, by step: logged once for each change, and kept for the status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_incremental.core.redact import describe

__all__ = ["Trouble", "told_to_stop", "whatever_happens"]

log = logging.getLogger(__name__)


class Trouble:
    """The present errors of something that goes on whatever happens.

    :param name: what the log calls it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._errors: dict[str, str] = {}

    def of(self, step: str) -> str | None:
        """Return what is wrong with a step, or None."""
        return self._errors.get(step)

    def begins(self, step: str, error: BaseException) -> str:
        """Note that a step failed, and return the error in one line."""
        text = describe(error)
        if self._errors.get(step) != text:
            log.error("%s: %s failed: %s", self._name, step, text)
        self._errors[step] = text
        return text

    def ends(self, step: str) -> None:
        """Note that a step works."""
        if self._errors.pop(step, None) is not None:
            log.info("%s: %s works again", self._name, step)


def told_to_stop(error: BaseException) -> bool:
    """Whether an error is the cancellation of the running task, and not one that came out of what it called.

    A driver may cancel its own futures: whoever waits for one gets the same exception as who is cancelled.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


@contextmanager
def whatever_happens() -> Iterator[None]:
    """Go on after the block although it failed, unless the task was told to stop."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if told_to_stop(error):
            raise
