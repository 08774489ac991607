"""Calls of operations on their way: many that are made at once travel in one request, each with an answer of its own.

What is true at every ``await``: a call waits in the queue, or is part of exactly one request under way, or is answered.
Whoever stops waiting for a call leaves the others of its request alone.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Call", "Courier"]

MOST_CALLS = 100
MOST_BYTES = 2**18
"""Of calls that travel together; a bigger one travels alone."""
REQUESTS_AT_ONCE = 8
_TOO_LARGE = 413
PER_SECOND = 50.0
"""Requests, lasting, when several callers share them. A caller that is alone never waits."""
_ALONE_FOR = 1.0
_BURST = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call.

    :param status: of its result.
    :param content: the JSON of the answer, or of the problem.
    :param retry_after: seconds that the server asks to be left alone for.
    :param size: of the whole response, in bytes.
    """

    status: int
    content: Any
    retry_after: float = 0.0
    size: int = 0


@dataclass(slots=True)
class Call:
    """One operation with its arguments, as a part of a request's body."""

    text: str
    answered: asyncio.Future[Answer]


class Courier:
    """Takes calls, and sends them in as few requests as their pace allows.

    :param send: sends one request with these calls, and returns an answer for each.
    :ivar requests: how many were sent.
    """

    def __init__(self, *, send: Callable[[Sequence[Call]], Awaitable[Sequence[Answer]]]) -> None:
        self._send = send
        self._queue: collections.deque[Call] = collections.deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._room, self._since = _BURST, 0.0
        self._last: dict[int, float] = {}
        self.requests = 0

    async def deliver(self, text: str) -> Answer:
        """Send a call, with others that are made at the same time, and return its answer.

        :param text: the call as it stands in a request's body.
        """
        loop = asyncio.get_running_loop()
        call, now = Call(text, loop.create_future()), loop.time()
        self._queue.append(call)
        self._last[id(asyncio.current_task())] = now
        if self._wake is None:
            # In a moment, when everybody who is ready now has made a call.
            self._wake = loop.call_later(self._wait(now), self._dispatch)
        return await call.answered

    async def aclose(self) -> None:
        """Give up what is under way."""
        if self._wake is not None:
            self._wake.cancel()
        for task in list(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        for call in self._queue:
            call.answered.cancel()
        self._queue.clear()

    def _wait(self, now: float) -> float:
        """Return for how long the next request has to wait."""
        self._room = min(_BURST, self._room + (now - self._since) * PER_SECOND)
        self._since = now
        self._last = {caller: at for caller, at in self._last.items() if now - at < _ALONE_FOR}
        if len(self._last) == 1 or self._room >= 1:
            return 0.0
        return (1 - self._room) / PER_SECOND

    def _dispatch(self) -> None:
        self._wake = None
        while self._queue and len(self._under_way) < REQUESTS_AT_ONCE:
            self._room -= 1  # below zero by what is owed for a wait that the next call adds to it
            self.requests += 1
            task = asyncio.get_running_loop().create_task(
                self._carry(self._next_load()), name="incremental store calls"
            )
            self._under_way.add(task)
            task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._queue and self._wake is None:
            self._dispatch()

    def _next_load(self) -> list[Call]:
        calls = [self._queue.popleft()]
        size = len(calls[0].text)
        while self._queue and len(calls) < MOST_CALLS and size + len(self._queue[0].text) <= MOST_BYTES:
            calls.append(self._queue.popleft())
            size += len(calls[-1].text)
        return calls

    async def _carry(self, calls: list[Call]) -> None:
        wanted = [call for call in calls if not call.answered.done()]
        try:
            answers = await self._sent(wanted) if wanted else []
        except BaseException as error:
            for call in wanted:
                _settle(call, error)
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        for call, answer in zip(wanted, answers, strict=True):
            if not call.answered.done():
                call.answered.set_result(answer)

    async def _sent(self, calls: list[Call]) -> Sequence[Answer]:
        """Send calls; those that are too long for the server, or for a proxy before it, only together, go apart."""
        answers = await self._send(calls)
        if len(calls) == 1 or any(each.status != _TOO_LARGE for each in answers):
            return answers
        half = len(calls) // 2
        self.requests += 2
        return [*await self._sent(calls[:half]), *await self._sent(calls[half:])]


def _settle(call: Call, error: BaseException) -> None:
    if call.answered.done():
        return
    if isinstance(error, asyncio.CancelledError):
        call.answered.cancel()
    else:
        call.answered.set_exception(error)
