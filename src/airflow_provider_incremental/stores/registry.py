"""One store for each address, process and event loop: shared by all who open it, closed by the last one to leave.

What is true at every ``await``: a store in ``_shared`` has at least one user and is open; one that is being closed is
not in it any more. So nobody is ever handed a store that is about to close.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.store import SqlStore

__all__ = ["acquire", "make_store", "release", "shared_store"]

_MEMORY = "memory"


def make_store(url: str) -> WatermarkStore:
    """Return a new store for an address, not shared with anybody; nothing connects yet.

    :param url: as ``[incremental] store`` gives it.
    :raises ConfigurationError: for a scheme that no store has.
    """
    return _BACKENDS.get(_scheme(url), _sql_store)(url)


def acquire(url: str) -> WatermarkStore:
    """Return the store for an address that this process and event loop share; each call needs one :func:`release`."""
    loop = asyncio.get_running_loop()
    with _lock:
        _leave_dead_loops()
        shared = _shared.get(_place(url, loop))
        if shared is None:
            shared = _shared[_place(url, loop)] = _Shared(make_store(url), loop)
        shared.users += 1
        return shared.store


async def release(url: str) -> None:
    """Give back what :func:`acquire` returned in this event loop; the last one closes the store."""
    place = _place(url, asyncio.get_running_loop())
    with _lock:
        shared = _shared[place]
        shared.users -= 1
        if shared.users or _scheme(url) == _MEMORY:
            return
        del _shared[place]
    await asyncio.shield(shared.store.aclose())


@asynccontextmanager
async def shared_store(url: str) -> AsyncGenerator[WatermarkStore, None]:
    """Open the shared store of an address for as long as the block lasts.

    :raises ConfigurationError: for a scheme that no store has.

    Example::

        async with shared_store("postgresql://airflow:...@db/incremental") as store:
            await store.list_watermarks()
    """
    store = acquire(url)
    try:
        yield store
    finally:
        await release(url)


@dataclass(slots=True)
class _Shared:
    store: WatermarkStore
    loop: asyncio.AbstractEventLoop
    users: int = 0


_Place = tuple[int, int, str]
"""Process, event loop and address. A child that was forked has other places than its parent, whose sockets it must
neither use nor close; a store in memory belongs to a process, whatever the loop."""

_shared: dict[_Place, _Shared] = {}
_lock = threading.Lock()


def _place(url: str, loop: asyncio.AbstractEventLoop) -> _Place:
    return (os.getpid(), 0 if _scheme(url) == _MEMORY else id(loop), url)


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _leave_dead_loops() -> None:
    """Forget stores whose loop was closed without a release: a new loop may get the same id."""
    for place, shared in list(_shared.items()):
        if place[0] == os.getpid() and place[1] and shared.loop.is_closed():
            del _shared[place]


def _after_fork() -> None:
    # Another thread of the parent may have held it, and does not exist here.
    globals()["_lock"] = threading.Lock()


def _memory_store(_: str) -> WatermarkStore:
    return MemoryStore()


def _sql_store(url: str) -> WatermarkStore:
    return SqlStore(url=url)


_BACKENDS: dict[str, Callable[[str], WatermarkStore]] = {_MEMORY: _memory_store}
"""Backends by scheme; what is not here is SQL, which knows its own schemes and refuses all others."""

os.register_at_fork(after_in_child=_after_fork)
