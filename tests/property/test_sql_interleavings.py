"""No row that commits late is missed, in whatever order transactions and polls follow each other.

``INCREMENTAL_INTERLEAVINGS=2500`` plays that many histories for each of the four cursors, 10,000 in all, in about five
minutes; without it there are fewer.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings

from airflow_provider_incremental.sources.sql_visibility import Horizon
from tests.integration.sql_stage import Database as Watched
from tests.integration.sql_stage import arguments_of
from tests.property.sql_interleavings import SESSIONS, History, Session, Step, histories, random_history

HISTORIES = int(os.environ.get("INCREMENTAL_INTERLEAVINGS", "100"))
CONTROL = 100
pytestmark = pytest.mark.timeout(300 + HISTORIES)

TABLE = """
CREATE TABLE t (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), wall timestamp(3) NOT NULL DEFAULT localtimestamp,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(), version int NOT NULL DEFAULT 1
);
CREATE INDEX ON t (at, id); CREATE INDEX ON t (wall, id); CREATE INDEX ON t (xid, id);
"""
CURSORS = [["at", "id"], ["wall", "id"], ["id"], ["xid", "id"]]


@dataclass
class PostgresSession:
    """A session through asyncpg."""

    connection: Any

    async def run(self, statement: str) -> Sequence[Sequence[Any]]:
        if statement.startswith("SELECT"):
            return [tuple(row) for row in await self.connection.fetch(statement)]
        await self.connection.execute(statement)
        return ()


class Postgres:
    """The table on PostgreSQL, watched by one cursor."""

    def __init__(self, url: str, **arguments: Any) -> None:
        self.watched = Watched(url)
        self.reader = self.watched.reader()
        self.arguments = arguments
        self.sessions: list[Session] = []
        self.template: Any = None

    async def open(self) -> None:
        arguments = arguments_of(self.watched.url)
        opened = [await asyncpg.connect(**arguments) for _ in range(SESSIONS + 1)]
        *self.sessions, self.observer = map(PostgresSession, opened)
        await opened[0].execute(TABLE)

    async def aclose(self) -> None:
        for session in (*self.sessions, self.observer):
            await session.connection.close()
        await self.watched.aclose()

    def source(self) -> Any:
        """A new process: what it knows of transactions and edges is gone. The table it looks at is the same."""
        if self.template is None or self.template._plan is None:
            self.template = self.watched.source(reader=self.reader, table="t", **self.arguments)
        source = copy.copy(self.template)
        source._edge = None
        if source._edges is not None:
            source._edges = copy.copy(source._edges)
            source._edges._horizon = Horizon(by_value=source._edges._by_value)
        return source

    def begin(self, name: str) -> list[str]:
        return ["BEGIN"]

    def prepare(self, name: str) -> list[str]:
        return [f"PREPARE TRANSACTION '{name}'"]

    def end(self, name: str, *, commit: bool, prepared: bool) -> list[str]:
        return [("COMMIT" if commit else "ROLLBACK") + (f" PREPARED '{name}'" if prepared else "")]

    def write(self, what: str, taken: Any) -> str:
        if what == "insert_taken":
            return f"INSERT INTO t (id, at, wall) VALUES ({taken[0]}, '{taken[1]}', '{taken[2]}')"
        if what == "insert_many":
            return "INSERT INTO t (version) SELECT 1 FROM generate_series(1, 3)"
        if what == "insert_now":
            return "INSERT INTO t (at, wall) VALUES (clock_timestamp(), clock_timestamp()::timestamp)"
        return "INSERT INTO t DEFAULT VALUES"

    def take(self) -> str:
        return "SELECT nextval('t_id_seq'), now(), localtimestamp"

    def update(self, number: int) -> str:
        stamps = "at = now(), wall = localtimestamp, xid = pg_current_xact_id()"
        return f"UPDATE t SET {stamps}, version = version + 1 WHERE id = {number}"


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all histories of a test, and the connections that live in it."""
    with asyncio.Runner() as made:
        yield made


def by_number(cursor: list[str]) -> bool:
    """Whether a cursor knows new rows only: no number is given to a row again."""
    return cursor == ["id"]


@contextlib.contextmanager
def opened(runner: asyncio.Runner, database: Postgres) -> Iterator[Postgres]:
    """Open the sessions, and close them."""
    try:
        runner.run(database.open())
        yield database
    finally:
        runner.run(database.aclose())


async def play(database: Postgres, steps: Sequence[Step]) -> History:
    """Play a history to its end."""
    history = History(database)
    await history.play(steps)
    await asyncio.sleep(0.002)  # what a column of milliseconds rounds up to
    await history.catch_up()
    return history


@pytest.mark.parametrize("cursor", CURSORS, ids=",".join)
def test_38_nothing_is_lost_and_nothing_repeated(
    postgres_database: str, runner: asyncio.Runner, cursor: list[str]
) -> None:
    """Inserts, updates, deletes, savepoints, two phases, idle transactions, with polls and crashes at every point."""

    @settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(histories())
    def check(steps: list[Step]) -> None:
        history = runner.run(play(database, steps))
        lost = runner.run(history.lost())
        if by_number(cursor):
            lost = {row for row in lost if row[0] not in {number for number, _ in history.found}}
        assert (lost, history.repeated) == (set(), set())

    with opened(runner, Postgres(postgres_database, cursor=cursor)) as database:
        check()


@pytest.mark.parametrize("cursor", CURSORS, ids=",".join)
def test_38_without_looking_at_transactions_rows_are_lost(
    postgres_database: str, runner: asyncio.Runner, cursor: list[str]
) -> None:
    """The same histories with visibility="none" lose rows: the histories above could show a loss."""
    rng, lost = random.Random(38), 0
    with opened(runner, Postgres(postgres_database, cursor=cursor, visibility="none")) as database:
        for _ in range(CONTROL):
            history = runner.run(play(database, random_history(rng)))
            found = {number for number, _ in history.found}
            lost += sum(1 for number, _ in runner.run(history.lost()) if number not in found)
    assert lost > 0
