"""One reader per connection in a process, however many sources read there: it closes with the last of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy.sql.elements import TextClause

from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_readers import Shape, SqlReader

__all__ = ["JoinedCalls", "SharedReaders"]

Result = TypeVar("Result")


class JoinedCalls(Generic[Result]):
    """Calls of one thing, of which those that wait share an answer: what answers a call began after it was called.

    :param apart: seconds that lie between the end of one run and the beginning of the next, at least.
    """

    def __init__(self, run: Callable[[], Awaitable[Result]], *, apart: float = 0.0) -> None:
        self._run = run
        self._apart = apart
        self._ended = -math.inf
        self._running: asyncio.Task[Result] | None = None
        self._next: asyncio.Task[Result] | None = None

    async def __call__(self) -> Result:
        """Return what the next run returns, or raise what it raises."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            # Also when everybody who waited was told to stop.
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[Result] | None) -> Result:
        if before is not None:
            await asyncio.wait([before])
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(self._ended + self._apart - loop.time(), 0.0))
        self._running, self._next = self._next, None
        try:
            return await self._run()
        finally:
            self._ended = loop.time()


@dataclass(slots=True)
class _Shared:
    reader: SqlReader
    users: int = 0


class SharedReaders:
    """The readers of this process, by connection. Each belongs to the event loop in which it was first asked for."""

    def __init__(self) -> None:
        self._readers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Shared]] = WeakKeyDictionary()

    def lease(self, key: str, make: Callable[[], SqlReader]) -> SqlReader:
        """Return the reader of a connection for one more source, whose ``aclose`` gives it back.

        :param key: tells connections apart, such as ``conn_id``; what differs in how it is read belongs to it.
        :param make: makes the reader where there is none; called in the event loop that will use it.
        """
        readers = self._readers.setdefault(asyncio.get_running_loop(), {})
        shared = readers.get(key)
        if shared is None:
            shared = readers[key] = _Shared(make())
        shared.users += 1
        return _Leased(shared, lambda: readers.pop(key, None))


class _Leased(SqlReader):
    """One source's share of a reader."""

    def __init__(self, shared: _Shared, forget: Callable[[], Any]) -> None:
        self._shared: _Shared | None = shared
        self._forget = forget
        self._reader = shared.reader

    async def describe(self, selection: SqlSelection) -> Shape:
        """Return what the selection looks like now."""
        return await self._reader.describe(selection)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """Return all rows of one statement, read at one instant."""
        return await self._reader.fetch(statement, parameters)

    async def fetch_in_turn(self, *statements: Statement | TextClause) -> Sequence[Sequence[Sequence[Any]]]:
        """Return the rows of each of some statements, run one after the other on one connection."""
        return await self._reader.fetch_in_turn(*statements)

    async def aclose(self) -> None:
        """Give the reader back; the last one closes it."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        shared.users -= 1
        if shared.users == 0:
            self._forget()
            await shared.reader.aclose()
