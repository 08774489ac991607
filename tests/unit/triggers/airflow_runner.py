"""A triggerer in miniature: a process with Airflow's own shared streams, which can be killed between any two steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
from airflow.triggers.shared_stream import SharedStreamManager

from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.testing.crashing import CrashingStore
from airflow_provider_incremental.triggers import _base
from tests.unit.triggers.list_trigger import ListTrigger, trigger

__all__ = ["Triggerer", "triggerer"]

_ROUNDS = 10_000


class Triggerer:
    """One process: a runner with a trigger, and the supervisor that stores events and confirms them.

    :param stored: Airflow's database: the payloads of the events that were stored. It survives.
    :param stores: whether the supervisor stores what it confirms: of a trigger that was removed Airflow drops it.
    :param redeliver_after: of the trigger.
    :param options: of Airflow's ``SharedStreamManager``.
    """

    def __init__(
        self,
        store: CrashingStore,
        stored: list[Any],
        *,
        stores: bool = True,
        redeliver_after: float = 300,
        **options: Any,
    ) -> None:
        self.manager = SharedStreamManager(**options)
        self.error: BaseException | None = None
        self.confirms = True
        self._store = store
        self._trigger: ListTrigger = trigger(poll_interval=0.01, redeliver_after=redeliver_after)
        self._stores = stores
        self._stored = stored
        self._outbound: list[tuple[Any, int | None]] = []
        self._loop = asyncio.SelectorEventLoop()
        self._tasks = [self._loop.create_task(part) for part in (self._runner(), self._supervisor())]

    def turn(self) -> None:
        """Let the event loop go round once: between two of these a process can be killed."""
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()

    def run_until(self, condition: Callable[[], bool]) -> int:
        """Turn until the condition holds, and return how many rounds that took."""
        for number in range(_ROUNDS):
            if condition():
                return number
            self.turn()
        raise AssertionError(f"{_ROUNDS} rounds were not enough; stored so far: {self._stored}")

    def shut_down(self) -> None:
        """End the streams in order, as Airflow does: it no longer listens to its supervisor then."""
        _, supervisor = self._tasks
        supervisor.cancel()
        self._loop.run_until_complete(self.manager.stop_all())

    def kill(self) -> None:
        """Nothing of it has any effect any more; then its remains are cleared away."""
        self._store.dead = True
        while remains := asyncio.all_tasks(self._loop):
            for task in remains:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(remains))
        for task in self._tasks:
            with suppress(BaseException):
                task.result()
        self._loop.close()

    async def _runner(self) -> None:
        key = self._trigger.shared_stream_key()
        while True:
            stream = self.manager.subscribe(trigger_id=1, trigger=self._trigger, key=key)
            try:
                async for event in self._trigger.filter_shared_stream(stream):
                    seq = self.manager.bind_pending_event(trigger_id=1, key=key)
                    self._outbound.append((event.payload, seq))
            except Exception as error:  # Airflow logs it, and runs the trigger again
                self.error = error
            finally:
                await self.manager.unsubscribe(1, key)
                await self._trigger.cleanup()
            await asyncio.sleep(0)

    async def _supervisor(self) -> None:
        while True:
            await asyncio.sleep(0)
            if self._outbound and self.confirms:
                payload, seq = self._outbound.pop(0)
                if self._stores:
                    self._stored.append(payload)
                await asyncio.sleep(0)
                if seq is not None:
                    self.manager.confirm_persisted([seq])


@contextmanager
def triggerer(
    monkeypatch: pytest.MonkeyPatch, survives: WatermarkStore, stored: list[Any], **options: Any
) -> Iterator[Triggerer]:
    """Start a process that opens this store; in the end it is killed."""
    store = CrashingStore(survives)

    @asynccontextmanager
    async def open_store() -> AsyncIterator[WatermarkStore]:
        yield store

    with monkeypatch.context() as patch:
        patch.setattr(_base, "open_store", open_store)
        process = Triggerer(store, stored, **options)
        try:
            yield process
        finally:
            process.kill()
