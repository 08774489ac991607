"""The queries that the documentation makes of a batch's condition copy exactly its rows."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg2
import pytest

from airflow_provider_incremental.sources.sql_range import range_between
from tests.integration.sql_stage import Database, arguments_of
from tests.integration.test_sql_range import pymysql_to

Run = Callable[..., dict[str, Any]]

_PAGE = Path(__file__).parents[2] / "docs" / "consumers.md"
_SECTION = _PAGE.read_text().partition("## Rows by a query of your own")[2].partition("\n## ")[0]
PLAIN, FILTERED, ON_MARIADB = re.findall(r"```python\n(.*?)```", _SECTION, re.DOTALL)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a piece of Python with these names; return all names that it knows then."""

    def run_text(text: str, **names: Any) -> dict[str, Any]:
        path = tmp_path / "example.py"
        path.write_text(text)
        return runpy.run_path(str(path), init_globals=names)

    return run_text


async def copied(
    run: Run, database: Database, example: str, cursor: str, **arguments: Any
) -> list[tuple[int, list[int]]]:
    """Run an example for each batch; return how many rows it says to have, and the ids of those that were copied."""
    source, low, more, found = database.source(cursor=cursor, payload="range", **arguments), None, True, []

    def consume(_: object) -> Iterator[Any]:
        rows = range_between(source.watches, low, polled.high)
        yield SimpleNamespace(
            count=polled.size,
            where=lambda style="pyformat", dialect=None: rows.condition(style, alias=None, dialect=dialect),
        )

    class Hook:
        def __init__(self, conn_id: str) -> None:
            assert conn_id == "shop"

        def run(self, sql: str, parameters: Any) -> None:
            postgres = database.kind == "postgresql"
            connection = psycopg2.connect(**_login(database)) if postgres else pymysql_to(database)
            with connection.cursor() as to:
                to.execute(sql, parameters)
            connection.commit()
            connection.close()

    while more:
        polled = await source.poll(low, 3, frozenset())
        if polled.size:
            run(example, consume=consume, orders=None, PostgresHook=Hook, MySqlHook=Hook)
            ids = [number for (number,) in database.execute("SELECT id FROM archive ORDER BY id")]
            found.append((polled.size, ids))
            database.execute("DELETE FROM archive")
        low, more = polled.high, polled.more
    return found


def _login(database: Database) -> dict[str, Any]:
    return {"dbname" if name == "database" else name: value for name, value in arguments_of(database.url).items()}


async def test_a_condition_of_the_trigger_is_repeated(run: Run, watched_postgres: Database) -> None:
    """Then only rows of the batches are copied; the query without it copies others, too."""
    watched_postgres.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, status text NOT NULL)",
        "CREATE TABLE archive (LIKE orders)",
        "INSERT INTO orders SELECT n, CASE n % 2 WHEN 0 THEN 'paid' ELSE 'new' END FROM generate_series(1, 10) AS n",
    )
    trigger = re.search(r"`(where=\"[^`]*)`", _SECTION)
    assert trigger is not None
    given = run(f"given = dict({trigger[1]})")["given"]
    assert await copied(run, watched_postgres, FILTERED, "id", **given) == [(3, [2, 4, 6]), (2, [8, 10])]
    assert await copied(run, watched_postgres, PLAIN, "id", **given) == [(3, [1, 2, 3, 4, 5, 6]), (2, [7, 8, 9, 10])]
    assert await copied(run, watched_postgres, PLAIN, "id") == [
        (3, [1, 2, 3]),
        (3, [4, 5, 6]),
        (3, [7, 8, 9]),
        (1, [10]),
    ]


@pytest.mark.parametrize("name", ["id", "order"])
async def test_on_mariadb_the_dialect_is_given(run: Run, mysql_database: str, name: str) -> None:
    """So that a name is a name, also one that needs quotes."""
    database = Database(mysql_database)
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, `order` int NOT NULL UNIQUE)",
        "CREATE TABLE archive LIKE orders",
        "INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    )
    assert await copied(run, database, ON_MARIADB, name) == [(3, [1, 2, 3]), (1, [4])]
    await database.aclose()
