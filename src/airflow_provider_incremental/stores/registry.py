"""One store for each address, process and event loop: shared by all who open it, closed by the last one to leave.

What is true at every ``await``: a store in the registry has at least one user and is open; one that is being closed is
not in it any more. So nobody is ever handed a store that is about to close.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.address import SCHEMES
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.engine import is_database, unknown_scheme
from airflow_provider_incremental.stores.sql.store import SqlStore

__all__ = ["GROUP", "acquire", "has_tables", "make_store", "release", "shared_store"]

GROUP = "airflow_provider_incremental.stores"
"""Of the entry points of stores that other packages bring."""

_MEMORY = "memory"
_ASSET_STATE = "asset-state"


def make_store(url: str) -> WatermarkStore:
    """Return a new store for an address, not shared with anybody; nothing connects yet.

    Another package brings a store by an entry point of the group :data:`GROUP`: its name is the scheme, and it
    leads to a function from an address to a store. The schemes of this package are not to be had.

    :param url: as ``[incremental] store`` gives it.
    :raises ConfigurationError: for a scheme that no store has, or whose package cannot be loaded.
    """
    scheme = _scheme(url)
    ours = _sql_store if is_database(scheme) else _BACKENDS.get(scheme)
    make = ours or _brought_by_others(scheme)
    if make is None:
        raise unknown_scheme(url, *sorted(entry_points(group=GROUP).names))
    return make(url)


def has_tables(url: str) -> bool:
    """Whether the store of an address is a database, whose tables have to be made."""
    return is_database(_scheme(url))


def acquire(url: str) -> WatermarkStore:
    """Return the store for an address that this process and event loop share; each call needs one :func:`release`.

    A store in memory is shared by all event loops of the process, and stays as long as the process does.
    """
    return _registry.acquire(url, asyncio.get_running_loop())


async def release(url: str) -> None:
    """Give back what :func:`acquire` returned in this event loop; the last one closes the store."""
    store = _registry.release(url, asyncio.get_running_loop())
    if store is not None:
        await asyncio.shield(store.aclose())


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


_Place = tuple[int, int, str]
"""Process, event loop and address. A child that was forked has other places than its parent, whose sockets it must
neither use nor close."""
_ANY_LOOP = 0


@dataclass(slots=True)
class _Shared:
    store: WatermarkStore
    loop: asyncio.AbstractEventLoop
    users: int = 0


class _Registry:
    """The shared stores of this process, and after a fork those of its parent, which stay untouched."""

    def __init__(self) -> None:
        self._shared: dict[_Place, _Shared] = {}
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def acquire(self, url: str, loop: asyncio.AbstractEventLoop) -> WatermarkStore:
        place = _place(url, loop)
        with self._lock:
            self._leave_dead_loops()
            shared = self._shared.get(place)
            if shared is None:
                shared = self._shared[place] = _Shared(make_store(url), loop)
            shared.users += 1
            return shared.store

    def release(self, url: str, loop: asyncio.AbstractEventLoop) -> WatermarkStore | None:
        """Return the store when it is to be closed now."""
        place = _place(url, loop)
        with self._lock:
            shared = self._shared[place]
            shared.users -= 1
            if shared.users or place[1] == _ANY_LOOP:
                return None
            del self._shared[place]
            return shared.store

    def _leave_dead_loops(self) -> None:
        """Forget stores whose loop was closed without a release: a new loop may get the same id."""
        for place, shared in list(self._shared.items()):
            process, loop, _ = place
            if process == os.getpid() and loop != _ANY_LOOP and shared.loop.is_closed():
                del self._shared[place]

    def _after_fork(self) -> None:
        # Another thread of the parent may have held it, and does not exist here.
        self._lock = threading.Lock()


def _place(url: str, loop: asyncio.AbstractEventLoop) -> _Place:
    return (os.getpid(), _ANY_LOOP if _scheme(url) == _MEMORY else id(loop), url)


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _brought_by_others(scheme: str) -> Callable[[str], WatermarkStore] | None:
    found = {entry.value: entry for entry in entry_points(group=GROUP, name=scheme)}
    if len(found) > 1:
        msg = f"the store of {scheme}:// is brought by {' and by '.join(sorted(found))}; uninstall all but one"
        raise ConfigurationError(msg)
    for value, entry in found.items():
        try:
            make: Any = entry.load()
        except Exception as error:  # whatever the package's modules do when they are loaded
            msg = f"the store of {scheme}:// is brought by {value}, which cannot be loaded: {describe(error)}"
            raise ConfigurationError(msg) from error
        if not callable(make):
            msg = f"the store of {scheme}:// is brought by {value}, which is no function from an address to a store"
            raise ConfigurationError(msg)
        return cast(Callable[[str], WatermarkStore], make)
    return None


def _memory_store(_: str) -> WatermarkStore:
    return MemoryStore()


def _api_store(url: str) -> WatermarkStore:
    # Loaded when it is needed: most processes have no use for an HTTP client.
    module = import_module("airflow_provider_incremental.stores.api.store")
    store: WatermarkStore = module.api_store(url)
    return store


def _refuse_asset_state(_: str) -> WatermarkStore:
    # What every line of the protocol stands on is missing there; a test looks whether Airflow has it by now.
    msg = (
        "Airflow's asset state store cannot hold watermarks: it has no compare-and-swap, so that of two triggers, or "
        "two workers, one overwrites unseen what the other has done; and Airflow deletes what an asset has when no "
        "DAG names it for a minute or two. Use Airflow's own database, whose tables `airflow db migrate` makes, by the "
        "API of its api-server, which needs no credentials of a database either: set [incremental] store to conn: and "
        "the id of a connection of type HTTP"
    )
    raise ConfigurationError(msg)


def _sql_store(url: str) -> WatermarkStore:
    return SqlStore(url=url)


_BACKENDS: dict[str, Callable[[str], WatermarkStore]] = {
    _MEMORY: _memory_store,
    _ASSET_STATE: _refuse_asset_state,
    **dict.fromkeys(SCHEMES, _api_store),
}
"""Our backends by scheme, beside the databases."""
_registry = _Registry()
