"""A batch's condition by what its trigger has recorded: it runs as it is on the database that is watched."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_incremental.sources.sql_range import RowRange, range_between
from airflow_provider_incremental.sources.sql_recorded import LATENESS, SHAPE, Recorded, recorded_in
from tests.integration.sql_stage import Database
from tests.integration.sql_watching import KEY, Start, Watching
from tests.integration.test_sql_range import STYLES, found

COLUMN = {"postgresql": '"order"', "mysql": "`order`", "sqlite": '"order"'}


async def recorded(shop: Watching) -> Recorded:
    """Return what a consumer reads of it."""
    return recorded_in([each for name in (LATENESS, SHAPE) for each in await shop.store.remembered(KEY, name, "", 1)])


async def ranges(shop: Watching) -> list[tuple[int, RowRange]]:
    """Return how many rows each batch has, and where they lie."""
    watermark, kept = await shop.store.load(KEY), await recorded(shop)
    batches = reversed(await shop.store.history(KEY, limit=100))
    return [(batch.count, range_between(watermark.watches, batch.low, batch.high, kept)) for batch in batches]


async def test_a_name_is_quoted_as_the_watched_database_does(watched: Database, watching: Start) -> None:
    """Without a dialect given; what MariaDB takes for a text is a name on others."""
    name = COLUMN[watched.kind]
    watched.execute(f"CREATE TABLE orders ({name} int PRIMARY KEY, id int)", "INSERT INTO orders VALUES (1, 1), (2, 2)")
    shop = watching(cursor="order", payload="range")
    await shop.live()
    watched.execute("INSERT INTO orders VALUES (3, 3)")
    await shop.live(20)
    for style in STYLES[watched.kind]:
        conditions = [(count, rows.condition(style, alias="o", dialect=None)) for count, rows in await ranges(shop)]
        assert [(count, await found(watched, style, each)) for count, each in conditions] == [(2, [1, 2]), (1, [3])]


async def test_it_is_recorded_once_with_the_first_rows(watched: Database, watching: Start) -> None:
    """Neither a restart nor more rows write it again, and nothing is committed for its sake."""
    watched.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    shop = watching(cursor="id", payload="range")
    await shop.live()
    assert (await recorded(shop)).dialect is None
    assert not await shop.store.history(KEY, limit=100)
    written: list[Any] = []
    commit = shop.store.commit

    async def noting(*given: Any, **named: Any) -> Any:
        written.append(dict(given[4] if len(given) > 4 else named.get("remember", {})))
        return await commit(*given, **named)

    shop.store.commit = noting
    for number in range(3):
        watched.execute(f"INSERT INTO orders VALUES ({number})")
        await shop.live(20)
    await shop.die()
    shop.start()
    watched.execute("INSERT INTO orders VALUES (9)")
    await shop.live(20)
    assert (await recorded(shop)).dialect == watched.kind
    assert (await recorded(shop)).kinds == ("FLOAT" if watched.kind == "sqlite" else "INTEGER",)
    assert [SHAPE in each for each in written] == [True, False, False, False]


async def test_rows_that_are_marked_are_recorded_with_the_first_of_them(watched: Database, watching: Start) -> None:
    """From then on the bounds of a batch have rows of two kinds; a restart does not forget it."""
    watched.execute("CREATE TABLE orders (id int PRIMARY KEY, gone int)", "INSERT INTO orders VALUES (1, 0)")
    shop = watching(cursor="id", deleted_column="gone")
    await shop.live()
    assert not (await recorded(shop)).parted
    watched.execute("INSERT INTO orders VALUES (2, 0), (3, 1)")
    await shop.live(20)
    assert (await recorded(shop)).parted
    await shop.die()
    shop.start()
    watched.execute("INSERT INTO orders VALUES (4, 0)")
    await shop.live(20)
    assert (await recorded(shop)).parted


async def test_lateness_is_known_of_the_watermark(watched: Database, watching: Start) -> None:
    """By what the trigger keeps for itself."""
    watched.execute("CREATE TABLE orders (id int PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    shop = watching(cursor="id", lateness=5.0)
    await shop.live()
    assert (await recorded(shop)).late


@pytest.mark.parametrize("style", STYLES["postgresql"])
async def test_transactions_numbers_are_compared_by_every_driver(watched_postgres: Database, style: str) -> None:
    """Psycopg2, asyncpg and SQLAlchemy find the rows, though PostgreSQL compares xid8 with no number."""
    watched_postgres.execute(
        "CREATE TABLE orders (xid xid8 NOT NULL DEFAULT pg_current_xact_id(), id int, PRIMARY KEY (xid, id))"
    )
    shop = Watching(watched_postgres, cursor=["xid", "id"], payload="range", visibility="committed", limit=2)
    for number in range(0, 6, 3):
        watched_postgres.execute(f"INSERT INTO orders (id) SELECT generate_series({number}, {number + 2})")
    await shop.live(60)
    await shop.die()
    conditions = [(count, rows.condition(style, alias="o", dialect=None)) for count, rows in await ranges(shop)]
    rows = [await found(watched_postgres, style, condition) for _, condition in conditions]
    assert [len(each) for each in rows] == [count for count, _ in conditions]
    assert [number for each in rows for number in each] == list(range(6))
