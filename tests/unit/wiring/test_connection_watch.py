"""A connection that is deleted or changed in Airflow while it is used: found out in time, once for all who use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.testing import FakeClock
from airflow_provider_incremental.wiring import airflow, lookup
from airflow_provider_incremental.wiring.connection_watch import AGAIN, ConnectionWatch, SharedWatches

_SAYS = "there is no connection 'shop'"


class Airflow:
    """Answers look-ups as it is told, and counts them."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Callable[[], Connection] = connection
        self.answers = asyncio.Event()
        self.answers.set()

    async def look_up(self, conn_id: str, _where: str) -> Connection:
        self.asked += 1
        await self.answers.wait()
        return self.answer()


def connection(**other: Any) -> Connection:
    """Return a connection, with something else in it."""
    return Connection(conn_id="shop", **{"conn_type": "postgres", "host": "here", "password": "old", **other})


def _missing() -> Connection:
    raise ConfigurationError(_SAYS)


def _unavailable() -> Connection:
    raise OSError("the API does not answer")


def _dying() -> Connection:
    raise SystemExit(3)


@pytest.fixture
def clock() -> FakeClock:
    """Stands still."""
    return FakeClock()


@pytest.fixture
def there() -> Airflow:
    """Has the connection."""
    return Airflow()


@pytest.fixture
def watch(clock: FakeClock, there: Airflow) -> ConnectionWatch:
    """Watches the connection, and waits for no look-up that hangs."""
    return ConnectionWatch("connection", lambda: there.look_up("shop", "conn_id"), clock=clock, patience=0.0)


async def _known(watch: ConnectionWatch) -> Any:
    """Let a look-up that began come to its end, and return what is known then."""
    for _ in range(2):
        known = await watch.known()
        for _ in range(5):
            await asyncio.sleep(0)
    return known


async def test_hundreds_of_polls_cost_one_look_up_each_minute(clock: FakeClock, there: Airflow) -> None:
    """Those of all triggers of a connection in a process together, also when they come at the same moment."""
    watches = SharedWatches(there.look_up, clock=clock)
    triggers = [watches.lease("shop") for _ in range(300)]
    for minute in range(3):
        for _ in range(2):
            await asyncio.gather(*(each.known() for each in triggers))
        assert there.asked == minute + 1
        clock.advance(AGAIN)


async def test_what_nobody_uses_any_more_is_forgotten(clock: FakeClock, there: Airflow) -> None:
    """Who comes later asks anew, however soon."""
    watches = SharedWatches(there.look_up, clock=clock)
    for _ in range(2):
        watch = watches.lease("shop")
        await watch.known()
        watches.release("shop")
    assert there.asked == 2


async def test_a_deleted_connection_is_told_once_airflow_said_so_twice_and_used_again_at_once(
    watch: ConnectionWatch, clock: FakeClock, there: Airflow
) -> None:
    """One answer alone may be that of a secrets backend that failed for a moment."""
    before = await watch.known()
    there.answer = _missing
    clock.advance(AGAIN)
    assert await _known(watch) is before
    clock.advance(AGAIN)
    with pytest.raises(ConfigurationError, match=_SAYS):
        await _known(watch)
    there.answer = connection
    with contextlib.suppress(ConfigurationError):
        await watch.known()  # the look-up begins, and is not waited for
    assert await _known(watch) is before


@pytest.mark.parametrize("failure", [_unavailable, _dying])
async def test_a_look_up_that_fails_changes_nothing(
    watch: ConnectionWatch, clock: FakeClock, there: Airflow, failure: Callable[[], Connection]
) -> None:
    """However often: the database answers, and Airflow's API is not needed for it."""
    before = await watch.known()
    there.answer = failure
    for _ in range(5):
        clock.advance(AGAIN)
        assert await _known(watch) is before


async def test_a_look_up_that_hangs_is_not_waited_for(watch: ConnectionWatch, clock: FakeClock, there: Airflow) -> None:
    """Nor is another one begun beside it; its answer counts when it comes."""
    before = await watch.known()
    there.answers.clear()
    there.answer = lambda: connection(host="there")
    for _ in range(5):
        clock.advance(AGAIN)
        assert await _known(watch) is before
    assert there.asked == 2
    there.answers.set()
    assert (await _known(watch)).connection.host == "there"


async def test_the_first_look_up_that_fails_is_told(watch: ConnectionWatch, there: Airflow) -> None:
    """And the next poll asks again."""
    there.answer = _unavailable
    with pytest.raises(OSError, match="does not answer"):
        await watch.known()
    there.answer = connection
    assert (await watch.known()).connection.host == "here"


async def test_who_cannot_reach_the_database_is_told_at_once_that_the_connection_is_gone(
    watch: ConnectionWatch, there: Airflow
) -> None:
    """No second answer is needed; and where Airflow cannot be asked, the old one is tried on."""
    assert (await watch.known()).connection.password == "old"
    there.answer = _unavailable
    assert (await watch.asked()).password == "old"
    there.answer = _missing
    with contextlib.suppress(ConfigurationError):
        await watch.asked()  # the look-up begins
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(ConfigurationError, match=_SAYS):
        await watch.asked()


class _Supervisor:
    """What a triggerer asks Airflow's API through; answers with an error of a kind."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def send(self, _request: Any) -> Any:
        return ErrorResponse(error=self._kind)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("CONNECTION_NOT_FOUND", ConfigurationError), ("API_SERVER_ERROR", ConnectionError)],
)
async def test_an_api_that_does_not_answer_is_not_taken_for_a_missing_connection(
    monkeypatch: pytest.MonkeyPatch, kind: str, error: type[Exception]
) -> None:
    """In a triggerer of Airflow 3.2 and later, both come as "not found"."""

    async def not_found(_conn_id: str) -> Connection:
        raise airflow.AirflowNotFoundException("The conn_id `shop` isn't defined")

    monkeypatch.setattr(lookup, "aget_connection", not_found)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", _Supervisor(ErrorType(kind)), raising=False)
    with pytest.raises(error, match="'shop'"):
        await lookup.alook_up("shop", "conn_id")
