"""Rows that are gone, in a table that may list its keys in another order from one read to the next."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_incremental.sources.sql_removals import Removals
from airflow_provider_incremental.testing.fakes import FakeClock
from tests.property.removals_machine import RemovalsMachine


def test_every_row_that_goes_is_reported_once() -> None:
    """No removal is lost, and none is told twice for one life of a row."""
    run_state_machine_as_test(RemovalsMachine, settings=settings(max_examples=300, stateful_step_count=30))


class Forgetful(Removals):
    """Does not note what is delivered: rows that come and go between two walks are overlooked."""

    async def follow(self, memory: Any, delivered: Any, *, limit: int) -> Any:
        return await super().follow(memory, [], limit=limit)


class ForgetfulMachine(RemovalsMachine):
    """The same histories for it."""

    make = staticmethod(lambda table: Forgetful(keys=table, clock=FakeClock(), range_keys=3, step_keys=7))


def test_the_machine_finds_what_is_lost() -> None:
    """The same histories, with deliveries that are not noted, lose removals: the test above can fail."""
    try:
        quickly = settings(max_examples=1000, print_blob=False, phases=[Phase.generate], report_multiple_bugs=False)
        run_state_machine_as_test(ForgetfulMachine, settings=quickly)
    except AssertionError:
        return
    raise AssertionError("nothing was lost")
