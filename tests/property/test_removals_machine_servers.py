"""Rows that are gone from a table of PostgreSQL or MariaDB, which people change while it is read.

``INCREMENTAL_HISTORIES=10`` tries ten times as many histories.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_key_reader import Key, KeyReader
from tests.integration.sql_stage import Database
from tests.property.removals_machine import RemovalsMachine, Table

TIMES = int(os.environ.get("INCREMENTAL_HISTORIES", "1"))
HISTORIES = 15 * TIMES
_ADD = {
    "postgresql": "INSERT INTO orders VALUES (:id) ON CONFLICT DO NOTHING",
    "mysql": "INSERT IGNORE INTO orders VALUES (:id)",
}


class RealTable(Table):
    """The table and its rows, and where they are."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        database.execute("DELETE FROM orders")
        selection = check_sql_arguments(table="orders", cursor="id")
        self.keys = KeyReader(reader=database.reader(), selection=selection, primary_key=["id"])

    def act(self, what: str, number: int) -> None:
        super().act(what, number)
        statement = _ADD[self.database.kind] if what == "insert" else "DELETE FROM orders WHERE id = :id"
        self.database.execute(statement, id=number)

    async def open(self) -> None:
        await self.keys.open()

    async def page(self, low: Key | None, up_to: Key | None, limit: int) -> list[Key]:
        self.read()
        return await self.keys.page(low, up_to, limit)

    async def existing(self, keys: Sequence[Key]) -> set[Key]:
        self.read()
        there = await self.keys.existing(keys)
        self.miss(set(keys) - there)
        return there


class OnServer(RemovalsMachine):
    """Each history in the same table, emptied."""

    database: ClassVar[Database]

    def make_table(self) -> Table:
        self.runner = asyncio.Runner()
        return RealTable(self.database)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.runner.run(self.database.aclose())
            self.runner.close()


@pytest.mark.timeout(300 * TIMES)
@pytest.mark.parametrize("server", ["postgres_database", "mysql_database"])
def test_every_row_that_goes_is_reported_once(request: pytest.FixtureRequest, server: str) -> None:
    """No removal is lost, and none is told twice for one life of a row."""
    OnServer.database = Database(request.getfixturevalue(server))
    OnServer.database.execute("CREATE TABLE orders (id bigint PRIMARY KEY)")
    quick = settings(
        max_examples=HISTORIES, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(OnServer, settings=quick)
