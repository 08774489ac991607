"""What a SQL source is told to select, and where to start, on PostgreSQL, MariaDB and SQLite."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.values import dumps
from tests.integration.sql_stage import NOON, Database, Watcher, make_orders, order, stamp


@pytest.fixture
def database(watched: Database) -> Database:
    """An empty database of each kind."""
    return watched


@pytest.fixture
def orders(watched: Database) -> Database:
    """A database of each kind with an empty table ``orders``."""
    make_orders(watched)
    return watched


async def test_a_query_with_parameters_is_watched_like_a_table(orders: Database) -> None:
    """A query is wrapped, whatever it ends with, and its parameters are bound."""
    orders.insert("orders", [order(number, name=f"it's {number % 2}") for number in range(6)])
    sql = """
        SELECT id, updated_at, name AS "What:s it", '100% :sure' AS note FROM orders o WHERE name = :name
        -- only some of them"""
    watcher = Watcher(lambda: orders.source(sql=sql, parameters={"name": "it's 1"}), limit=2)
    await watcher.drain()
    assert watcher.ids == [1, 3, 5]
    assert list(watcher.items[0]) == ["id", "updated_at", "What:s it", "note"]
    assert list(watcher.items[0].values()) == [1, stamp(orders, NOON), "it's 1", "100% :sure"]


async def test_a_condition_with_parameters_is_watched_like_a_table(orders: Database) -> None:
    """Rows that do not meet it are not there, wherever they lie; a value that looks like SQL is a value."""
    orders.insert("orders", [order(number, name=name) for number, name in enumerate(("a", "b", "b", "a' OR '1'='1"))])
    watcher = Watcher(
        lambda: orders.source(cursor="id", where="name = :name OR name = ':b' -- not b", parameters={"name": "b"}),
        limit=1,
    )
    assert await watcher.drain() != []
    assert watcher.ids == [1, 2]
    assert (await orders.source(cursor="id", where="name = 'b'").latest()).cursor == (2,)
    odd = orders.source(cursor="id", where="name = :name", parameters={"name": "a' OR '1'='1"})
    assert [item["id"] for item in (await odd.poll(None, 10, frozenset())).items] == [3]


async def test_a_date_is_compared_as_each_database_does(database: Database) -> None:
    """With a text where that is enough, with a cast on PostgreSQL; a message names the other way."""
    database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, day date NOT NULL)")
    database.insert("orders", [{"id": number, "day": f"2026-01-0{number}"} for number in (1, 2, 3)])
    cast, plain = "day >= CAST(CAST(:day AS text) AS date)", "day >= :day"
    own, other = (cast, plain) if database.kind == "postgresql" else (plain, cast)
    given = {"cursor": "id", "parameters": {"day": "2026-01-02"}}
    found = await database.source(where=own, **given).poll(None, 10, frozenset())
    assert [item["id"] for item in found.items] == [2, 3]
    if database.kind != "sqlite":  # which takes both
        said = {
            "postgresql": r"CAST\(CAST\(:name AS text\) AS date\)",
            "mysql": "compare with a text as it is, without a cast",
        }[database.kind]
        with pytest.raises(SourceError, match=said):
            await database.source(where=other, **given).poll(None, 10, frozenset())


async def test_what_quotes_hold_is_read_as_the_database_reads_it(orders: Database) -> None:
    """Dollar quotes of PostgreSQL and backslashes of MariaDB may hold a semicolon, a colon and a quote."""
    way = {"postgresql": "$a$it's :a; $$ $a$", "mysql": r"'it\'s :a; $$ '", "sqlite": "'it''s :a; $$ '"}
    quoted = way[orders.kind]
    orders.insert("orders", [order(1, name="it's :a; $$ "), order(2, name="b")])
    where = orders.source(where=f"name = {quoted} AND id = :a", parameters={"a": 1})
    sql = f"SELECT id, updated_at, {quoted} AS note FROM orders WHERE name <> {quoted} AND id > :a"
    query = orders.source(sql=sql, parameters={"a": 1})
    assert [item["id"] for item in (await where.poll(None, 10, frozenset())).items] == [1]
    assert [item["note"] for item in (await query.poll(None, 10, frozenset())).items] == ["it's :a; $$ "]


@pytest.mark.parametrize("name", ["param_1", "timezone_1", "convert_tz_1", "strftime_1", "name_1"])
async def test_parameters_may_have_any_name(orders: Database, name: str) -> None:
    """Names that statements of ours give their own values are a user's as well, in a condition and in a query."""
    orders.insert("orders", [order(number, name=str(number)) for number in range(4)])
    given = {"parameters": {name: "1", f"{name}0": "9"}, "timezone": "UTC" if orders.kind == "postgresql" else None}
    where = f"name > :{name} AND name < :{name}0"
    condition = orders.source(where=where, lateness=60.0, **given)
    query = orders.source(sql=f"SELECT * FROM orders WHERE {where}", **given)
    for source in (condition, query):
        low = (stamp(orders, NOON), 2)
        assert [item["id"] for item in (await source.poll(low, 10, frozenset())).items][-1:] == [3]
        assert (await source.latest()).cursor == (stamp(orders, NOON), 3)


async def test_46_rows_without_a_value_are_skipped_counted_and_come_with_one(database: Database) -> None:
    """With null_cursor="skip" a NULL stops nothing and is no position; the row comes when it has a value."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, n int)")
    database.execute("INSERT INTO orders VALUES (1, NULL), (2, 1), (3, NULL), (4, 2)")
    source = database.source(cursor=["n", "id"], null_cursor="skip", where="id < 100")
    watcher = Watcher(lambda: source, limit=1)
    await watcher.drain()
    assert watcher.ids == [2, 4]
    assert watcher.note is not None
    assert "skipped: 2 rows have NULL in a cursor column (n)" in watcher.note
    database.execute("UPDATE orders SET n = 3 WHERE id = 1", "UPDATE orders SET n = 3 WHERE id = 3")
    await watcher.drain()
    assert watcher.ids == [2, 4, 1, 3]
    await watcher.poll()
    await watcher.poll()
    assert watcher.note is None


async def test_46_the_count_of_skipped_rows_goes_with_them(database: Database) -> None:
    """The poll that finds a row which had no value counts again, and the note goes at once with the last such row."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY, n int)")
    database.execute("INSERT INTO orders VALUES (1, NULL), (2, 1), (3, NULL), (4, NULL)")
    source = database.source(cursor=["n", "id"], null_cursor="skip")
    watcher = Watcher(lambda: source)
    for _ in range(4):  # an idle source counts ever more rarely
        await watcher.poll()
        assert "skipped: 3 rows" in (watcher.note or "")
    database.execute("UPDATE orders SET n = 2 WHERE id = 1")
    await watcher.poll()
    assert "skipped: 2 rows" in (watcher.note or "")
    database.execute("DELETE FROM orders WHERE id = 3", "UPDATE orders SET n = 0 WHERE id = 4")
    await watcher.poll()
    assert (watcher.ids, watcher.note) == ([2, 1], None)


async def test_unique_is_the_users_word_for_a_table_without_a_key(database: Database) -> None:
    """It stands in for a key; rows that belie it are found out."""
    database.execute("CREATE TABLE orders (id int NOT NULL)", "INSERT INTO orders VALUES (1), (2)")
    watcher = Watcher(lambda: database.source(cursor="id", unique=True))
    await watcher.drain()
    assert watcher.ids == [1, 2]
    database.execute("INSERT INTO orders VALUES (3), (3)")
    with pytest.raises(SourceError, match="two rows have the same cursor"):
        await watcher.drain()


async def test_range_delivers_bounds_and_a_count(orders: Database) -> None:
    """With payload="range" a batch has no items; its cursor and its count are those of the rows."""
    orders.insert("orders", [order(number) for number in range(5)])
    watcher = Watcher(lambda: orders.source(payload="range"), limit=3)
    assert await watcher.poll() == []
    assert (watcher.count, watcher.more, watcher.watermark) == (3, True, dumps((stamp(orders, NOON), 2)))
    assert await watcher.poll() == []
    assert (watcher.count, watcher.more, watcher.watermark) == (2, False, dumps((stamp(orders, NOON), 4)))


async def test_columns_choose_what_is_delivered(orders: Database) -> None:
    """Only the named columns are read and delivered, in that order."""
    orders.insert("orders", [order(1)])
    watcher = Watcher(lambda: orders.source(columns=["id", "updated_at"]))
    assert [list(item) for item in await watcher.poll()] == [["id", "updated_at"]]


async def test_latest_is_the_last_row_below_the_edge_and_nothing_on_an_empty_table(orders: Database) -> None:
    """The baseline is None without rows; with rows it is the last one's cursor, and what comes later is found."""
    assert (await orders.source().latest()).cursor is None
    orders.insert("orders", [order(1), order(3), order(2)])
    baseline = await orders.source().latest()
    assert baseline.cursor == (stamp(orders, NOON), 3)
    orders.insert("orders", [order(4)])
    watcher = Watcher(orders.source, watermark=dumps(baseline.cursor))
    await watcher.drain()
    assert watcher.ids == [4]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2026-01-31T12:00:01", [2, 3, 4]),
        (["2026-01-31 12:00:01"], [2, 3, 4]),
        (["2026-01-31T12:00:01", 2], [3, 4]),
        (["2026-01-31T12:00:01", "3"], [4]),
        ("2026-02-01", []),
        (NOON + dt.timedelta(seconds=2), [4]),
    ],
)
async def test_a_start_given_by_a_user_is_read_in_the_columns_type(
    orders: Database, start: object, expected: list[int]
) -> None:
    """A time for the first column starts with the rows of that time; a value for each is a row that was delivered."""
    orders.insert("orders", [order(number, NOON + dt.timedelta(seconds=number // 2)) for number in (1, 2, 3, 4)])
    baseline = await orders.source().at(start)
    watcher = Watcher(orders.source, limit=1, watermark=dumps(baseline.cursor))
    await watcher.drain()
    assert watcher.ids == expected


async def test_a_start_that_does_not_fit_is_refused_with_an_example(orders: Database) -> None:
    """A start in the wrong type or with too many values names the column and what is expected."""
    orders.insert("orders", [order(1)])
    with pytest.raises(SourceError, match=r"start=\['2026-01-31', 'x'\]|start='x'.*column id.*expected a"):
        await orders.source().at(["2026-01-31", "x"])
    with pytest.raises(SourceError, match="has more values than the cursor updated_at,id"):
        await orders.source().at(["2026-01-31", 1, 2])


async def test_a_position_set_by_hand_is_read_like_a_start(orders: Database) -> None:
    """Whoever sets a watermark writes a list or one value; it is understood, and the next position is a row's."""
    orders.insert("orders", [order(number) for number in (1, 2, 3)])
    watcher = Watcher(orders.source, watermark='["2026-01-31 12:00:00", 2]')
    await watcher.drain()
    assert watcher.ids == [3]
    assert watcher.watermark == dumps((stamp(orders, NOON), 3))
    empty = Watcher(orders.source, watermark='"2027-01-01 00:00:00"')
    assert await empty.drain() == []
    assert empty.watermark == '"2027-01-01 00:00:00"'


async def test_a_missing_table_and_a_missing_column_are_named(orders: Database) -> None:
    """The message names what is missing and where; after it is there, the same source goes on."""
    with pytest.raises(SourceError, match="nowhere") as missing:
        await orders.source(table="nowhere").poll(None, 10, frozenset())
    assert orders.kind in str(missing.value)
    source = orders.source(cursor=["changed_at", "id"])
    with pytest.raises(SourceError, match="no column 'changed_at'; it has id, updated_at, name"):
        await source.poll(None, 10, frozenset())
    with pytest.raises(SourceError, match=r"columns=.*no column 'price'"):
        await orders.source(columns=["updated_at", "id", "price"]).poll(None, 10, frozenset())
    orders.execute(f"ALTER TABLE orders ADD COLUMN changed_at {orders.timestamp}")
    orders.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00', '', '2026-01-31 12:00:00')")
    found = await source.poll(None, 10, frozenset())
    assert [item["id"] for item in found.items] == [1]


async def test_a_table_that_is_made_anew_is_read_again(orders: Database) -> None:
    """Dropped and created with other columns: an error while it is gone, then its rows as they are now."""
    orders.insert("orders", [order(1)])
    source = orders.source()
    first = await source.poll(None, 10, frozenset())
    orders.execute("DROP TABLE orders")
    with pytest.raises(SourceError, match="orders"):
        await source.poll(first.high, 10, frozenset())
    orders.execute(
        f"CREATE TABLE orders (id bigint PRIMARY KEY, extra varchar(9), updated_at {orders.timestamp} NOT NULL)"
    )
    orders.execute("INSERT INTO orders VALUES (2, 'e', '2026-01-31 12:00:00')")
    found = await source.poll(first.high, 10, frozenset())
    assert list(found.items) == [{"id": 2, "extra": "e", "updated_at": stamp(orders, NOON)}]


async def test_odd_names_are_quoted(database: Database) -> None:
    """Reserved words, capitals, spaces, quotes, percent signs and colons in names are names, and nothing else."""
    quote = "`" if database.kind == "mysql" else '"'
    odd = {"order": "order", "Capital": "Capital", "a b": "a b", "50%": "50%", ":x": r"\:x", "it's": "it's"}
    columns = ", ".join(f"{quote}{written}{quote} bigint NOT NULL" for written in odd.values())
    database.execute(f"CREATE TABLE {quote}The Table; --{quote} ({columns}, PRIMARY KEY ({quote}a b{quote}))")
    database.execute(f"INSERT INTO {quote}The Table; --{quote} VALUES (1, 2, 3, 4, 5, 6)")
    watcher = Watcher(lambda: database.source(table="The Table; --", cursor=["order", "50%", ":x", "it's", "a b"]))
    assert await watcher.drain() == [dict(zip(odd, range(1, 7), strict=True))]
    assert await watcher.drain() == []


async def test_a_cursor_that_no_longer_fits_is_refused_and_not_cast(orders: Database) -> None:
    """A watermark of another type than the column now has is an error that says what to do, and nothing is read."""
    orders.insert("orders", [order(1)])
    for cursor in ((5, 1), (stamp(orders, NOON), "1"), (dt.date(2026, 1, 1), 1), (NOON.replace(tzinfo=dt.UTC), 1)):
        with pytest.raises(SourceError, match="is not cast, since a cast may skip rows"):
            await orders.source().poll(cursor, 10, frozenset())
