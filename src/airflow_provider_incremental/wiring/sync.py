"""The sync face for tasks: one background thread with an event loop, over the one asynchronous implementation."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.wiring.stores import open_store_url, say_if_embedded, store_url

__all__ = ["LoopThread", "StoreSession", "store_session"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread of its own: it goes on, for leases to be renewed, while the task's code runs.

    A child that was forked has the object and no thread: it can use nothing of it, and leaves it to its parent.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="incremental-store", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for what it returns or raises.

        :raises StoreError: in a forked child, where nothing would ever return.
        """
        if os.getpid() != self._process:
            work.close()
            msg = (
                f"the store was opened by process {self._process}, and this one was forked from it: the batches that "
                "it holds are that process's to finish. Open the store here as well: call consume() in the child"
            )
            raise StoreError(msg)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Cancel what is left, end the loop and its thread."""
        if os.getpid() != self._process:
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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
