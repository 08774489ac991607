"""Sources of one connection share one reader, which closes with the last of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_incremental.sources.sql_arguments import SqlSelection, check_sql_arguments
from airflow_provider_incremental.sources.sql_keyset import Statement
from airflow_provider_incremental.sources.sql_readers import Shape, SqlReader
from airflow_provider_incremental.sources.sql_sharing import SharedReaders


class CountingReader(SqlReader):
    """Says how often it was closed."""

    closed = 0

    async def describe(self, selection: SqlSelection) -> Shape:
        return Shape(place="here", dialect="sqlite", columns=[], keys=None)

    async def fetch(self, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return [(id(self),)]

    async def aclose(self) -> None:
        self.closed += 1


async def test_a_reader_is_made_once_and_closed_with_its_last_source() -> None:
    """Two leases of one connection lead to one reader; another connection has its own."""
    made: list[CountingReader] = []

    def make() -> SqlReader:
        made.append(CountingReader())
        return made[-1]

    readers = SharedReaders()
    one, two, other = (readers.lease(key, make) for key in ("shop", "shop", "stock"))
    statement: Any = None
    assert len(made) == 2
    assert await one.fetch(statement, {}) == await two.fetch(statement, {}) != await other.fetch(statement, {})
    assert (await one.describe(check_sql_arguments(table="t", cursor="id"))).place == "here"
    await one.aclose()
    await one.aclose()
    assert made[0].closed == 0
    await two.aclose()
    assert (made[0].closed, made[1].closed) == (1, 0)
    readers.lease("shop", make)
    assert len(made) == 3


def test_each_event_loop_has_its_own_readers() -> None:
    """What belongs to a loop that is gone is not given to another one."""
    readers = SharedReaders()
    made: list[CountingReader] = []

    def make() -> SqlReader:
        made.append(CountingReader())
        return made[-1]

    async def lease() -> None:
        readers.lease("shop", make)

    asyncio.run(lease())
    asyncio.run(lease())
    assert len(made) == 2
