"""Blocking calls off the event loop: a bounded number of threads, which never keep the process from ending.

A call that hangs cannot be killed. What is true at every ``await``: as many threads run as slots are taken, and a slot
comes back when its thread has ended, not when somebody has given up waiting for it. So a database that hangs takes its
own slots and no more, and its callers are told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["BlockingCalls", "NoThreadFreeError"]

Result = TypeVar("Result")


class NoThreadFreeError(Exception):
    """Every thread was taken for as long as the call would wait."""


class BlockingCalls:
    """Runs blocking calls in threads of its own.

    :param name: of the threads.
    :param limit: at most so many threads at once.
    """

    def __init__(self, *, name: str, limit: int) -> None:
        self._name = name
        self._slots = asyncio.Semaphore(limit)

    async def run(self, call: Callable[[], Result], *, seconds: float, give_up: Callable[[], None]) -> Result:
        """Return what the call returns, or raise what it raises.

        :param seconds: how long to wait for a thread, and then for the call.
        :param give_up: called, from the event loop, when nobody waits for the call any more.
        :raises NoThreadFreeError: when no thread became free in time.
        :raises TimeoutError: when the call did not return in time; its thread goes on until it does.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise NoThreadFreeError from None
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()
        threading.Thread(target=self._work, args=(call, answer, loop), name=self._name, daemon=True).start()
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except BaseException:
            if answer.cancelled():
                give_up()
            raise

    def _work(
        self, call: Callable[[], Result], answer: asyncio.Future[Result], loop: asyncio.AbstractEventLoop
    ) -> None:
        result: Result | None = None
        failure: BaseException | None = None
        try:
            result = call()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits
            loop.call_soon_threadsafe(self._ended, answer, result, failure)

    def _ended(self, answer: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
        self._slots.release()
        if answer.done():
            return
        if failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(result)
