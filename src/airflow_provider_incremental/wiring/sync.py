"""The sync face for tasks: one background thread with an event loop, over the one asynchronous implementation."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from airflow_provider_incremental.core.errors import StoreError, StoreUnavailableError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.wiring.stores import open_store_url, say_if_embedded, store_url

__all__ = ["LoopThread", "StoreSession", "closed_at_exit", "store_session"]

log = logging.getLogger(__name__)

T = TypeVar("T")

AT_EXIT = 5.0
"""Seconds that a process which ends has for all that is still open in it."""

_loops: set[LoopThread] = set()
_generators: weakref.WeakSet[Generator[Any, None, None]] = weakref.WeakSet()


class LoopThread:
    """An event loop in a thread of its own: it goes on, for leases to be renewed, while the task's code runs.

    A child that was forked has the object and no thread: it can use nothing of it, and leaves it to its parent.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._deadline: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="incremental-store", daemon=True)
        self._thread.start()
        _loops.add(self)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for what it returns or raises.

        :raises StoreError: in a forked child, where nothing would ever return, and when the process ends meanwhile.
        """
        if os.getpid() != self._process:
            work.close()
            msg = (
                f"the store was opened by process {self._process}, and this one was forked from it: the batches that "
                "it holds are that process's to finish. Open the store here as well: call consume() in the child"
            )
            raise StoreError(msg)
        if self._loop.is_closed():
            work.close()
            raise StoreError("the store is closed: the process ends")
        answer = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return answer.result(self._left())
        except TimeoutError:
            if self._deadline is None or answer.done():
                raise
            raise StoreUnavailableError("the store did not answer before the process ended") from None

    def close(self) -> None:
        """Cancel what is left, end the loop and its thread."""
        if os.getpid() != self._process or self._loop.is_closed():
            return
        try:
            self.run(_cancel_others())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(self._left())
            if not self._thread.is_alive():
                self._loop.close()
            _loops.discard(self)

    def hurry(self, seconds: float) -> None:
        """Wait for nothing longer than so many seconds from now."""
        self._deadline = time.monotonic() + seconds

    def _left(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())


class StoreSession:
    """A store, and the loop that its operations run in: ``session.run(session.store.load(key))``."""

    def __init__(self, store: WatermarkStore, loop: LoopThread) -> None:
        self.store = store
        self.run = loop.run


@contextmanager
def store_session(given: str | None = None) -> Generator[StoreSession, None, None]:
    """Open the store for sync code, as long as the block lasts.

    :param given: a URL or ``conn:`` and a connection's id; None for the setting ``[incremental] store``.
    """
    url = store_url(given)  # here, not in the other thread: a task's channel to Airflow belongs to its main thread
    say_if_embedded(url)
    loop = LoopThread()
    try:
        opened = open_store_url(url)
        store = loop.run(_enter(opened))
        try:
            yield StoreSession(store, loop)
        finally:
            loop.run(_leave(opened))
    finally:
        loop.close()


def closed_at_exit(generator: Generator[T, None, None]) -> Generator[T, None, None]:
    """Return the generator, to be closed when the process ends while somebody still refers to it.

    Python itself would close it, if at all, when the thread that answers it stands still for good: it would hang.
    """
    _generators.add(generator)
    return generator


@atexit.register
def _close_all() -> None:
    """Close what the program left open, after its threads have ended; what does not answer is left as it is."""
    for loop in tuple(_loops):
        loop.hurry(AT_EXIT)
    left_open: list[Generator[Any, None, None] | LoopThread] = [*_generators, *_loops]
    for each in left_open:
        try:
            each.close()
        except Exception as error:
            log.warning("left open when the process ended, and not closed: %s", describe(error))


async def _enter(opened: Any) -> WatermarkStore:
    store: WatermarkStore = await opened.__aenter__()
    return store


async def _leave(opened: Any) -> None:
    await opened.__aexit__(None, None, None)


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
