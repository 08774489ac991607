"""The database's clock, told between two measurements by this machine's."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_incremental.stores.sql.clock import DatabaseClock
from airflow_provider_incremental.testing.fakes import FakeClock

NOON = dt.datetime(2030, 6, 1, 12, tzinfo=dt.UTC)


def seconds(number: float) -> dt.timedelta:
    return dt.timedelta(seconds=number)


@pytest.fixture
def local() -> FakeClock:
    """This machine's clock: years behind the database's."""
    return FakeClock()


@pytest.fixture
def clock(local: FakeClock) -> DatabaseClock:
    """A clock that was measured at noon, in no time."""
    clock = DatabaseClock(local=local)
    clock.measured(NOON, clock.begin())
    return clock


def test_time_goes_on_from_the_measurement(local: FakeClock, clock: DatabaseClock) -> None:
    """Ten seconds later here it is ten seconds later there."""
    assert clock.now() == NOON
    local.advance(10)
    assert clock.now() == NOON + seconds(10)


def test_the_measurement_is_taken_for_the_middle_of_the_round_trip(local: FakeClock) -> None:
    """The database answered somewhere between question and answer: it is off by half a round trip at most."""
    clock = DatabaseClock(local=local)
    began = clock.begin()
    local.advance(4)
    clock.measured(NOON, began)
    assert clock.now() == NOON + seconds(2)


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_step_of_the_wall_clock_moves_nothing(local: FakeClock, clock: DatabaseClock, hours: float) -> None:
    """An administrator sets this machine's clock: the database's is told as before, and measured again."""
    local.advance(5)
    assert not clock.stale
    local.set_wall(hours * 3600)
    assert clock.now() == NOON + seconds(5)
    assert clock.stale
    clock.measured(NOON + seconds(5), clock.begin())
    assert not clock.stale


def test_it_is_measured_again_now_and_then(local: FakeClock, clock: DatabaseClock) -> None:
    """Two clocks drift apart, so no measurement is used for ever."""
    local.advance(299)
    assert not clock.stale
    local.advance(2)
    assert clock.stale


def test_where_the_database_has_no_clock_of_its_own(local: FakeClock) -> None:
    """SQLite's clock is this machine's."""
    clock = DatabaseClock(local=local)
    clock.measured(None, clock.begin())
    local.advance(7)
    assert clock.now() == local.now()
