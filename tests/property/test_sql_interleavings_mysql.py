"""No row that commits late is missed on MariaDB or MySQL either: statements that wait, transactions, and XA.

``INCREMENTAL_INTERLEAVINGS=1000`` plays a tenth as many histories for each cursor here: a poll is three connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiomysql
import pytest

from tests.integration.sql_stage import Database as Watched
from tests.property.sql_interleavings import SESSIONS, History, Session, random_history

HISTORIES = max(int(os.environ.get("INCREMENTAL_INTERLEAVINGS", "100")) // 10, 1)
DETACH = "DETACH"
ROLLED_BACK = 1402

TABLE = """
CREATE TABLE t (
    id bigint AUTO_INCREMENT PRIMARY KEY, at datetime(6) NOT NULL DEFAULT NOW(6), version int NOT NULL DEFAULT 1,
    KEY t_at (at, id)
)
"""


@dataclass
class MysqlSession:
    """A session through aiomysql."""

    url: str
    connection: Any = None

    async def open(self) -> MysqlSession:
        parts = urlsplit(self.url)
        login = {"user": parts.username, "password": parts.password, "db": parts.path.lstrip("/")}
        self.connection = await aiomysql.connect(host=parts.hostname, port=parts.port, autocommit=True, **login)
        return self

    async def run(self, statement: str) -> Sequence[Sequence[Any]]:
        if statement == DETACH:
            self.connection.close()
            await self.open()
            return ()
        async with self.connection.cursor() as cursor:
            try:
                await cursor.execute(statement)
            except aiomysql.OperationalError as error:
                if error.args[0] != ROLLED_BACK or not statement.startswith("XA "):
                    raise
                return ()  # a transaction that was prepared without a change ends with its session
            rows: Sequence[Sequence[Any]] = await cursor.fetchall()
            return rows


class Mysql:
    """The table on MariaDB or MySQL, watched by one cursor."""

    def __init__(self, url: str, **arguments: Any) -> None:
        self.watched = Watched(url)
        self.reader = self.watched.reader()
        self.arguments = arguments
        self.sessions: list[Session] = []

    async def open(self) -> None:
        opened = [await MysqlSession(self.watched.url).open() for _ in range(SESSIONS + 1)]
        *self.sessions, self.observer = opened
        await self.observer.run(TABLE)

    async def aclose(self) -> None:
        for session in (*self.sessions, self.observer):
            session.connection.close()
        await self.watched.aclose()

    def source(self) -> Any:
        return self.watched.source(reader=self.reader, table="t", **self.arguments)

    def begin(self, name: str) -> list[str]:
        return [f"XA START '{name}'" if self._two_phase(name) else "BEGIN"]

    def prepare(self, name: str) -> list[str]:
        return [f"XA END '{name}'", f"XA PREPARE '{name}'", DETACH] if self._two_phase(name) else []

    def end(self, name: str, *, commit: bool, prepared: bool) -> list[str]:
        how = "COMMIT" if commit else "ROLLBACK"
        if not self._two_phase(name):
            return [how]
        if prepared:
            return [f"XA {how} '{name}'"]
        return [f"XA END '{name}'", f"XA COMMIT '{name}' ONE PHASE" if commit else f"XA ROLLBACK '{name}'"]

    def _two_phase(self, name: str) -> bool:
        return name[-1] in "02468"

    def write(self, what: str, taken: Any) -> str:
        if what == "insert_many":
            return "INSERT INTO t (version) VALUES (1), (1), (1)"
        return "INSERT INTO t () VALUES ()"

    def take(self) -> str:
        return "SELECT 1"

    def update(self, number: int) -> str:
        return f"UPDATE t SET at = NOW(6), version = version + 1 WHERE id = {number}"


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """One event loop for all histories of a test, and the connections that live in it."""
    with asyncio.Runner() as made:
        yield made


@contextlib.contextmanager
def opened(runner: asyncio.Runner, database: Mysql) -> Iterator[Mysql]:
    """Open the sessions, and close them."""
    try:
        runner.run(database.open())
        yield database
    finally:
        runner.run(database.aclose())


async def play(database: Mysql, seed: int) -> tuple[set[int], set[Any]]:
    """Play a history, wait until every row is below the edge, and return what was lost and what was repeated."""
    rng = random.Random(seed)
    history = History(database)
    await history.play(random_history(rng))
    lost = await history.lost()
    for _ in range(100):
        await history.catch_up()
        lost = await history.lost()
        if not lost:
            break
        await asyncio.sleep(0.1)
    found = {number for number, _ in history.found}
    by_number = database.arguments["cursor"] == ["id"]
    return {number for number, _ in lost if not (by_number and number in found)}, history.repeated


@pytest.mark.parametrize("cursor", [["at", "id"], ["id"]], ids=",".join)
def test_38_nothing_is_lost_and_nothing_repeated(
    mysql_database: str, runner: asyncio.Runner, cursor: list[str]
) -> None:
    """Inserts, updates, deletes, savepoints, XA and idle transactions, with polls and crashes at every point."""
    with opened(runner, Mysql(mysql_database, cursor=cursor)) as database:
        for seed in range(HISTORIES):
            assert runner.run(play(database, seed)) == (set(), set()), f"random_history(random.Random({seed}))"


def test_38_without_looking_at_transactions_rows_are_lost(mysql_database: str, runner: asyncio.Runner) -> None:
    """The same histories with visibility="none" lose rows: the histories above could show a loss."""
    lost = set[tuple[int, int]]()
    with opened(runner, Mysql(mysql_database, cursor=["id"], visibility="none")) as database:
        for seed in range(40):
            history = History(database)
            runner.run(history.play(random_history(random.Random(seed))))
            runner.run(history.catch_up())
            found = {number for number, _ in history.found}
            lost |= {row for row in runner.run(history.lost()) if row[0] not in found}
    assert lost
