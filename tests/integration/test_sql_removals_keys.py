"""Keys by which rows are found to be gone: of any kind, as the database compares them, refused if they cannot do."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.sources.sql_key_reader import KeyReader
from airflow_provider_incremental.sources.sql_removal_arguments import check_removals
from tests.integration.sql_stage import Database, make_orders, order
from tests.integration.sql_watching import Start

TEXT = {"postgresql": "text", "mysql": "varchar(100)", "sqlite": "text"}


KEYS = {
    "of two columns": (["shop", "id"], [(shop, number) for shop in ("a", "b", "Ω", "C") for number in (1, 2, 10)]),
    "of text": (["id"], [(each,) for each in ("a", "B", "_", "b c", "é", "z", "zz", "Ω", "it's", "%", "10", "9")]),
    "of uuids": (["id"], [(str(uuid.UUID(int=number**20)),) for number in range(1, 13)]),
}


@pytest.mark.parametrize("kind", KEYS)
async def test_keys_of_any_kind(watched: Database, watching: Start, kind: str) -> None:
    """In whatever order the database has them; small ranges, so that they are compared by it in both directions."""
    names, keys = KEYS[kind]
    uuids = "uuid" in kind and watched.kind == "postgresql"
    types = {
        "shop": TEXT[watched.kind],
        "id": "bigint" if len(names) > 1 else "uuid" if uuids else TEXT[watched.kind],
    }
    columns = ", ".join(f"{name} {types[name]} NOT NULL" for name in names)
    watched.execute(f"CREATE TABLE orders ({columns}, PRIMARY KEY ({', '.join(names)}))")
    watched.insert("orders", [dict(zip(names, key, strict=True)) for key in keys])
    shop = watching(removals=True, primary_key=names, cursor=names)
    await shop.die()
    shop.small = True
    shop.start()
    await shop.live(30)
    going = keys[::2]
    for key in going:
        where = " AND ".join(f"{name} = :{name}" for name in names)
        watched.execute(f"DELETE FROM orders WHERE {where}", **dict(zip(names, key, strict=True)))
    await shop.live(60)
    found = [tuple(str(item[name]) for name in names) for item in await shop.removed()]
    assert sorted(found) == sorted(tuple(map(str, key)) for key in going)


async def test_a_key_that_only_the_database_takes_for_another(mysql_database: str) -> None:
    """Where 'a' equals 'A', a row that is spelt anew is not gone."""
    database = Database(mysql_database)
    database.execute(
        "CREATE TABLE orders (id varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY)",
        "INSERT INTO orders VALUES ('A'), ('b')",
    )
    selection = check_sql_arguments(table="orders", cursor="id")
    keys = KeyReader(reader=database.reader(), selection=selection, primary_key=["id"])
    await keys.open()
    assert await keys.existing([("a",), ("b",), ("c",)]) == {("a",), ("b",)}
    await database.aclose()


async def test_another_key_begins_anew(watched: Database, watching: Start) -> None:
    """What was known by the other key is forgotten, and no row is taken for gone."""
    watched.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, code bigint NOT NULL UNIQUE, "
        f"updated_at {watched.timestamp} NOT NULL)"
    )
    for number in range(1, 6):
        watched.execute(f"INSERT INTO orders VALUES ({number}, {number + 100}, '2026-01-31 12:00:00')")
    shop = watching(removals=True, primary_key="id")
    await shop.live(30)
    await shop.die()
    shop.removals = check_removals(shop.selection, removals=True, primary_key="code")
    shop.start()
    await shop.live(100)
    assert await shop.removed() == []
    watched.execute("DELETE FROM orders WHERE id = 3")
    await shop.live(30)
    assert await shop.removed() == [{"code": 103}]


async def test_a_key_that_does_not_tell_rows_apart_is_refused(watched: Database, watching: Start) -> None:
    """At the first poll, with the remedy, and with nothing delivered that would not be followed."""
    make_orders(watched)
    watched.insert("orders", [order(1)])
    shop = watching(removals=True, primary_key="name")
    await shop.live(30)
    error = (await shop.status()).last_error
    assert "removals=True with primary_key=['name']" in error
    assert "does not tell the rows" in error
    assert "give primary_key=['id']" in error
    assert "unique=True" not in error
    await shop.die()
    shop = watching(removals=True, primary_key="gone")
    await shop.live(30)
    assert "no column 'gone'" in (await shop.status()).last_error


async def test_a_key_that_is_null_is_refused(watched: Database) -> None:
    """A row with NULL in its key equals no other, not even itself: it would come as removed while it is there."""
    watched.execute("CREATE TABLE orders (id int PRIMARY KEY, line int)", "INSERT INTO orders VALUES (1, 1), (2, NULL)")
    selection = check_sql_arguments(sql="SELECT * FROM orders", cursor=["id"], unique=True, visibility="none")
    keys = KeyReader(reader=watched.reader(), selection=selection, primary_key=["id", "line"])
    await keys.open()
    with pytest.raises(SourceError, match=r"primary_key=\['id', 'line'\].*has NULL there"):
        await keys.page(None, None, 10)


async def test_rows_come_though_keys_cannot_be_read(watched: Database, watching: Start) -> None:
    """Once a walk went well, trouble with the keys is noted and tried again; nothing that went is forgotten."""
    make_orders(watched)
    watched.insert("orders", [order(1), order(2)])
    shop = watching(removals=True, primary_key="id")
    await shop.live(30)
    page = shop.source._removals._keys.page

    async def broken(*_: Any) -> Any:
        raise SourceError("the keys cannot be read")

    shop.source._removals._keys.page = broken
    watched.execute("DELETE FROM orders WHERE id = 2")
    watched.insert("orders", [order(3)])
    await shop.live(30)
    assert [row["id"] for rows in await shop.batches("added") for row in rows] == [1, 2, 3]
    assert "rows that are gone cannot be looked for" in (await shop.status()).note
    shop.source._removals._keys.page = page
    await shop.live(100)
    assert await shop.removed() == [{"id": 2}]
    assert (await shop.status()).note is None
