"""A database as the store uses it: transactions that are bounded in time, repeated where that is safe, and clean.

What is true at every ``await``: a connection is either in the pool or in the hands of exactly one running operation.
Operations that run together share the connection of the transaction that they are part of, and do one thing at a time.
An operation that is cancelled or runs out of time gives its connection back, or has it closed when a statement was
under way, before the error reaches its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_provider_incremental.stores.sql.dialects import DIALECTS
from airflow_provider_incremental.stores.sql.engine import BUSY_TIMEOUT, create_engine, shown
from airflow_provider_incremental.stores.sql.failures import DRIVER_ERRORS, Failure, classify, translated
from airflow_provider_incremental.stores.sql.opened import Opened
from airflow_provider_incremental.stores.sql.spare import Spare

__all__ = ["Database"]

Result = TypeVar("Result")
Work = Callable[[AsyncConnection], Awaitable[Result]]

_ATTEMPTS = 6
_FIRST_PAUSE = 0.01
_TIMEOUT = 30.0
_CLOSE_TIMEOUT = 5.0
_LAST_WAIT = 1.0


_transaction: ContextVar[tuple[Database, AsyncConnection] | None] = ContextVar("_transaction", default=None)


class _Attempt:
    """Whether one attempt has come so far that the database may have applied it without our knowing."""

    def __init__(self) -> None:
        self.perhaps_applied = False


class Database:
    """An engine, with the rules for running operations on it.

    :param url: an address from :func:`store_url`.
    """

    def __init__(self, *, url: URL) -> None:
        self.where = shown(url)
        self.dialect = DIALECTS[url.get_backend_name()]
        self.engine = create_engine(url)
        self._pool: Any = self.engine.pool
        self._opened = Opened(self.engine)
        event.listen(self.engine.sync_engine, "handle_error", _give_up_read_only)
        self._spare = Spare()
        self._singles = self.engine.execution_options(**self.dialect.single_options)
        # SQLite lets one write at a time and wakes nobody who waits: within a process, writers queue here.
        self._turn: contextlib.AbstractAsyncContextManager[Any] = (
            asyncio.Lock() if self.dialect.begin_write else contextlib.nullcontext()
        )
        # SQLite's own wait for its lock has to end first, or its error would never be seen.
        self._timeout = _TIMEOUT + BUSY_TIMEOUT if self.dialect.begin_write else _TIMEOUT

    async def read(self, work: Work[Result]) -> Result:
        """Run statements that only read, each by itself."""
        if (shared := self._shared) is not None:
            return await work(shared)

        async def once(_: _Attempt) -> Result:
            async with self._singles.connect() as connection:
                return await work(connection)

        return await self._attempts(once, repeatable=True)

    async def write(self, work: Work[Result], *, repeatable: bool, within: float | None = None) -> Result:
        """Run one transaction.

        :param repeatable: whether doing it twice is the same as once, so that it may be done again when the
            connection was lost while the database was committing.
        :param within: seconds for which it may take, where that is longer than for others.
        """
        if (shared := self._shared) is not None:
            return await work(shared)

        async def once(attempt: _Attempt) -> Result:
            async with self._turn, self.engine.connect() as connection:
                if self.dialect.begin_write:
                    await connection.exec_driver_sql(self.dialect.begin_write)
                result = await work(connection)
                attempt.perhaps_applied = True
                await connection.commit()
                return result

        return await self._attempts(once, repeatable=repeatable, within=within)

    async def statement(self, work: Work[Result], *, repeatable: bool) -> Result:
        """Run a single statement that writes, as its own transaction."""
        if self._shared is not None or not self.dialect.single_options:
            return await self.write(work, repeatable=repeatable)

        async def once(attempt: _Attempt) -> Result:
            async with self._singles.connect() as connection:
                attempt.perhaps_applied = True
                result = await work(connection)
                await connection.commit()
                return result

        return await self._attempts(once, repeatable=repeatable)

    async def driver_statement(self, work: Work[Result]) -> Result:
        """Run a single statement on the driver's own connection, past SQLAlchemy, which begins no transaction then.

        It may be repeated.
        """

        async def once(_: _Attempt) -> Result:
            connection = await self._spare.take() or await self.engine.connect()
            try:
                return await work(connection)
            except DRIVER_ERRORS as error:
                if classify(error) is Failure.READ_ONLY:
                    await connection.invalidate()
                raise
            finally:
                # Nothing has to be rolled back, so this waits for nothing, and needs no task that outlives a cancel.
                await self._spare.give(connection)

        return await self._attempts(once, repeatable=True)

    async def together(self, work: Work[Result]) -> Result:
        """Run operations of this database as one transaction. It may be repeated, so they find out whether it was."""

        async def whole(connection: AsyncConnection) -> Result:
            before = _transaction.set((self, connection))
            try:
                return await work(connection)
            finally:
                _transaction.reset(before)

        return await self.write(whole, repeatable=True)

    async def undo(self, connection: AsyncConnection) -> None:
        """Take back what the running operation did in its transaction, and let it go on in another one."""
        await connection.rollback()
        if self.dialect.begin_write:
            await connection.exec_driver_sql(self.dialect.begin_write)

    @property
    def commits_in_one_statement(self) -> bool:
        """Whether a commit goes straight to the driver: not when it is a part of a transaction."""
        return self.dialect.commits_in_one_statement and self._shared is None

    @property
    def _shared(self) -> AsyncConnection | None:
        """The connection of the transaction that the running operation is a part of."""
        database, connection = _transaction.get() or (None, None)
        return connection if database is self else None

    @property
    def lent(self) -> int:
        """How many connections are in the hands of operations."""
        out: int = self._pool.checkedout()
        return out - self._spare.held

    async def aclose(self) -> None:
        """Close every connection, within seconds whatever the network does: what cannot say goodbye goes without."""
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.wait([closing], timeout=_CLOSE_TIMEOUT)
        finally:
            if not closing.done():
                self._opened.terminate(self.dialect)
                await _ended(closing)
        with contextlib.suppress(asyncio.CancelledError, *DRIVER_ERRORS):  # it is gone, one way or the other
            if closing.done():
                closing.result()

    async def _close(self) -> None:
        await self._spare.close()
        await self.engine.dispose()

    async def _attempts(
        self, once: Callable[[_Attempt], Awaitable[Result]], *, repeatable: bool, within: float | None = None
    ) -> Result:
        pause = _FIRST_PAUSE
        for left in reversed(range(_ATTEMPTS)):
            attempt = _Attempt()
            try:
                async with asyncio.timeout(within or self._timeout):
                    return await once(attempt)
            except DRIVER_ERRORS as error:
                failure = classify(error)
                lost = failure is Failure.DISCONNECTED and (repeatable or not attempt.perhaps_applied)
                if not left or not (failure in (Failure.ROLLED_BACK, Failure.READ_ONLY) or lost):
                    raise translated(error, self.where) from error
            await asyncio.sleep(pause)
            pause *= 3
        raise AssertionError  # the last attempt returns or raises


def _give_up_read_only(context: Any) -> None:
    """Have a session that takes no changes, and all that are as old, replaced: what it is was decided as it began."""
    if classify(context.original_exception) is Failure.READ_ONLY:
        context.is_disconnect = True


async def _ended(closing: asyncio.Future[None]) -> None:
    """Wait until nobody waits for a connection that was terminated, and no longer."""
    await asyncio.wait([closing], timeout=_LAST_WAIT)
    if not closing.done():
        closing.cancel()
        await asyncio.wait([closing], timeout=_LAST_WAIT)
