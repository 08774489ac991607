"""A source of a user's own that does not keep the rules: it stalls nobody, and nothing ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import pytest

from airflow_provider_incremental.core.source import Found
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing.fakes import ListSource
from tests.miniature import Deployment


class ScriptedSource(ListSource):
    """Answers each poll with what the test says."""

    def __init__(self, answer: Callable[[Cursor], Awaitable[Found]]) -> None:
        super().__init__()
        self.answer = answer

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Note the poll, and answer."""
        self.polls.append(low)
        return await self.answer(low)


class GreedyError(BaseException):
    """An exception that no ``except Exception`` sees, as some libraries have them."""


@pytest.mark.parametrize("error", [SystemExit(3), GreedyError("x")], ids=["exit", "base"])
async def test_an_exception_outside_of_exception_is_one_failed_poll(
    deployment: Deployment, error: BaseException
) -> None:
    """``sys.exit`` in a library that a source calls does not end the process that runs everybody's triggers."""
    deployment.source.add(1, "a")

    async def fail() -> None:
        deployment.source.before_return = None
        raise error

    deployment.source.before_return = fail
    trigger = deployment.trigger(poll_interval=10.0)
    await deployment.run_for(100)
    assert not trigger.task.done()
    assert deployment.announced() == [1]


async def test_more_of_nothing_is_asked_for_at_the_usual_pace(deployment: Deployment) -> None:
    """A source that says there is more and finds nothing does not make the loop spin."""

    async def nothing(low: Cursor) -> Found:
        return Found(high=low, more=len(source.polls) < 200)

    source = ScriptedSource(nothing)
    deployment.trigger(source=source, poll_interval=10.0)
    await deployment.run_for(25)
    assert len(source.polls) == 3


async def test_items_without_progress_are_an_error(deployment: Deployment) -> None:
    """A source that never moves and always finds does not fill the store with the same items for ever."""

    async def same(_: Cursor) -> Found:
        return Found(high=(1, "a"), items=["a"], more=len(source.polls) < 200)

    source = ScriptedSource(same)
    deployment.trigger(source=source, poll_interval=10.0)
    await deployment.run_for(25)
    assert (await deployment.watermark()).last_seq == 1


@pytest.mark.parametrize("answer", [ValueError("x"), SystemExit(3), 5], ids=["raises", "exits", "no awaitable"])
async def test_a_source_that_cannot_tell_of_changes_is_polled_all_the_same(
    deployment: Deployment, answer: object
) -> None:
    """``changed()`` that raises at once, or returns something else, is a source without news."""

    def changed() -> Awaitable[None] | None:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    deployment.source.changed = changed
    trigger = deployment.trigger(poll_interval=10.0)
    await deployment.run_for(5)
    deployment.source.add(1, "a")
    await deployment.run_for(100)
    assert not trigger.task.done()
    assert deployment.announced() == [1]


async def test_a_listener_that_calls_exit_does_not_end_the_process(deployment: Deployment) -> None:
    """What is awaited for news runs in a task, out of which ``SystemExit`` would leave the whole event loop."""

    async def leave() -> None:
        raise SystemExit(3)

    deployment.source.changed = leave
    trigger = deployment.trigger(poll_interval=10.0)
    deployment.source.add(1, "a")
    await deployment.run_for(100)
    assert not trigger.task.done()
