"""Bad SQL arguments are refused when the DAG is parsed, with the parameter, its value and the remedy."""

from __future__ import annotations

import sys
from subprocess import run
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments

TABLE = {"table": "orders", "cursor": ["updated_at", "id"]}
QUERY = {"sql": "SELECT * FROM orders", "cursor": ["updated_at", "id"], "unique": True}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"cursor": "id"}, "table=None and sql=None: neither is given; give one"),
        (TABLE | QUERY, r"table='orders' and sql='SELECT \* FROM orders': both are given"),
        (TABLE | {"cursor": []}, r"cursor=\[\] cannot be used; give a list with the name of at least one column"),
        (TABLE | {"cursor": ""}, r"cursor=\[''\].*'' is not the name of a column"),
        (TABLE | {"cursor": None}, "cursor=None cannot be used"),
        (TABLE | {"cursor": "updated_at, id"}, r"cursor='updated_at, id'.*cursor=\['updated_at', 'id'\]"),
        (TABLE | {"cursor": ["id", 5]}, r"cursor=\['id', 5\].*5 is not the name of a column"),
        (TABLE | {"cursor": ["id", "at", "id"]}, "the column 'id' is named twice"),
        (TABLE | {"columns": ["id", "price"]}, "the cursor column 'updated_at' is not among them; add it"),
        (TABLE | {"columns": ["id", "updated_at", "id"]}, "columns=.*'id' is named twice"),
        (TABLE | {"columns": []}, r"columns=\[\] cannot be used"),
        (TABLE | {"columns": "id"}, "columns='id' cannot be used; give a list"),
        (TABLE | {"table": "shop."}, r"table='shop\.' cannot be used; give the name of a table"),
        (TABLE | {"table": ""}, "table=''"),
        (TABLE | {"table": "a\0b"}, "table="),
        (TABLE | {"table": 5}, "table=5"),
        (TABLE | {"parameters": {"a": 1}}, "parameters=.*they belong to a query"),
        (QUERY | {"sql": "SELECT 1; SELECT 2"}, "sql='SELECT 1; SELECT 2' cannot be used; it has a semicolon"),
        (QUERY | {"sql": "SELECT 1;"}, "semicolon"),
        (QUERY | {"sql": "SELECT ';' --;\n;"}, "semicolon"),
        (QUERY | {"sql": "SELECT $$;$$; SELECT 1"}, "semicolon"),
        (QUERY | {"sql": "SELECT a$b$, c; SELECT d$b$"}, "semicolon"),
        (QUERY | {"sql": r"SELECT 'C:\', 'D:\'; SELECT ''"}, "semicolon"),
        (QUERY | {"sql": r"SELECT 'it\'s'; SELECT 1"}, "semicolon"),
        (QUERY | {"sql": "SELECT $$:day$$", "parameters": {"day": 1}}, "sql has no ':day'"),
        (QUERY | {"sql": "  "}, "give the text of one SELECT"),
        (QUERY | {"sql": 5}, "sql=5"),
        (QUERY | {"parameters": {"day": 1}}, "sql has no ':day'"),
        (QUERY | {"sql": "SELECT ':day', a::day -- :day", "parameters": {"day": 1}}, "sql has no ':day'"),
        (QUERY | {"sql": "SELECT :cursor_low_0", "parameters": {"cursor_low_0": 1}}, "are taken; choose others"),
        (QUERY | {"unique": False}, "unique=False cannot be used; a query has no key that says so: give unique=True"),
        (
            QUERY | {"sql": "SELECT * FROM t ORDER BY id"},
            "it ends with ORDER BY.*the order of a poll is that of the cursor",
        ),
        (QUERY | {"sql": "SELECT * FROM t WHERE a IN (1) limit 5"}, "it ends with LIMIT.*max_rows.*leave it out"),
        (QUERY | {"sql": "SELECT * FROM t LIMIT :n", "parameters": {"n": 1}}, "it ends with LIMIT"),
        (QUERY | {"sql": "SELECT * FROM t offset 3"}, "it ends with OFFSET"),
        (QUERY | {"sql": "SELECT * FROM t FETCH FIRST 5 ROWS ONLY"}, "it ends with FETCH FIRST"),
        (QUERY | {"sql": "DELETE FROM t RETURNING id"}, "it begins with DELETE"),
        (QUERY | {"sql": "SELECT * FROM t FOR  update"}, "it ends with FOR UPDATE, and a poll locks no rows"),
        (QUERY | {"sql": "SELECT * FROM t FOR NO KEY UPDATE NOWAIT"}, "it ends with FOR NO KEY UPDATE"),
        (QUERY | {"sql": "SELECT * FROM t WHERE a IN (:a, :b)", "parameters": {"a": 1}}, r"':b', .*parameters=\{'b': "),
        (TABLE | {"where": "a = :a"}, r"where='a = :a' .*':a', which has no value; give parameters=\{'a': \.\.\.\}"),
        (TABLE | {"where": "a LIKE :a AND b = CAST(:b AS date)", "parameters": {"a": 1}}, "':b', which has no value"),
        (TABLE | {"where": "a = '1') or (1 = 1"}, "its parentheses do not match"),
        (TABLE | {"where": "(a = ')'"}, "its parentheses do not match"),
        (TABLE | {"where": "a = 1 ORDER BY 1"}, "it has ORDER BY, which is no condition; leave it out"),
        (TABLE | {"where": "a = 1 limit 5"}, "it has LIMIT"),
        (TABLE | {"where": " "}, "where=' ' cannot be used; give the text of one condition"),
        (TABLE | {"where": "a = 1; DROP TABLE t"}, "where=.*semicolon"),
        (TABLE | {"where": "a = 1", "parameters": {"b": 1}}, "where has no ':b'"),
        (TABLE | {"parameters": 5, "where": "a = :a"}, "parameters=5 cannot be used; give a dictionary"),
        (TABLE | {"null_cursor": "include"}, "null_cursor='include' cannot be used; give one of 'error', 'skip'"),
        (TABLE | {"visibility": "all"}, "visibility='all' cannot be used; give one of 'committed', 'none'"),
        (TABLE | {"max_hold": -1}, "max_hold=-1 cannot be used; give a number of seconds"),
        (TABLE | {"max_hold": 1, "visibility": "none"}, "max_hold=1 cannot be used; with visibility='none'"),
        (TABLE | {"lateness": -1}, "lateness=-1 cannot be used; give a number of seconds"),
        (TABLE | {"lateness": 1, "payload": "range"}, "lateness=1 cannot be used; a range has bounds"),
        (TABLE | {"payload": "row"}, "payload='row' cannot be used; give one of 'rows', 'range'"),
        (TABLE | {"max_rows": 0}, "max_rows=0 cannot be used"),
        (TABLE | {"max_rows": True}, "max_rows=True"),
        (TABLE | {"max_rows": 1.5}, r"max_rows=1\.5"),
        (TABLE | {"settle": -1}, "settle=-1 cannot be used; give a number of seconds"),
        (TABLE | {"settle": float("nan")}, "settle=nan"),
        (TABLE | {"settle": "5"}, "settle='5'"),
        (TABLE | {"timezone": "Berlin"}, "timezone='Berlin' cannot be used; give the name of a zone"),
        (TABLE | {"timezone": "../etc/passwd"}, "timezone="),
    ],
)
def test_what_cannot_be_used_is_refused_with_name_value_and_remedy(arguments: dict[str, Any], told: str) -> None:
    """Each mistake names the parameter, shows what was given and says what to write instead."""
    with pytest.raises(ConfigurationError, match=told):
        check_sql_arguments(**arguments)


@pytest.mark.parametrize(
    "sql",
    [
        r"SELECT '{\"a\":1}', '\:x', arr[:n], arr[1:n], '12:30', a::b, a :: b, ':day', \":day\" -- :day",
        "SELECT ';' AS a, \"b;\", `c;` FROM t -- ; nothing\n/* ; */",
        "SELECT 'it''s;' FROM t",
        "SELECT at::date, '12:30', '{\"a\":1}', x::text FROM t",
        r"SELECT '\:name' FROM t",
        "SELECT $$it's; :day$$, $a$ $$;$b$ $a$, $größe$;$größe$ FROM t",
        r"""SELECT "a\"b; :day", 'it\'s; :day', 'c\'' FROM t""",
        r"SELECT 'it\'s; :day', 'that\'s' FROM t",
        r"SELECT 'C:\', 'a\b;' FROM t",
        r"SELECT E'it\'s; :day', 'C:\' FROM t",
    ],
)
def test_semicolons_and_colons_in_texts_names_and_comments_are_none(sql: str) -> None:
    """What only looks like a second statement or a parameter is sent as it is."""
    selection = check_sql_arguments(unique=True, sql=f"{sql}\n, :day", parameters={"day": 1}, cursor="id")
    compiled = sa.text(selection.text_to_bind).compile()
    assert str(compiled) == f"{sql}\n, :day"
    assert compiled.params == {"day": None}


@pytest.mark.parametrize(
    "where",
    [
        "a::text = 'x' AND b::date > '2026-01-01'::date",
        "t > '12:30' AND path = ':name' AND note = ') ORDER BY 1'",
        "a[:n] = b AND a[1:2] = c AND a[lo :hi] = d AND a[b[1]:n] = e",
        "src:name = 1 AND \"Src\":name = 1 AND PARSE_JSON(x):name = 1 AND 'q' :name = 1",
        "{'a':b, 'c': d, 'e':f}.a = 1 AND a = {'x' :y}",
        r"doc @? '$.a ? (@ > 1)' AND name = 'it\'s :)' AND b = 1",
        r"path = 'C:\' AND b = ':) '",
        "a = 1 # :) and = :b",
        "a = $$ ) :b $$ -- ) = :c",
        "a = 1 /* ( = :a */",
        "[a)] = 1",
        '"limit" = 5 AND limit IN (1) AND offset > 5 AND ordering = by_whom',
        "id IN (SELECT id FROM t ORDER BY at LIMIT 5)",
        "(SELECT @a := 1) = 1",
        "a =:: b",
        "it's unreadable (",
    ],
)
def test_what_a_database_may_understand_is_not_refused(where: str) -> None:
    """Colons, parentheses and words have more meanings than a check can know: where in doubt, the database is asked."""
    assert check_sql_arguments(table="orders", cursor="id", where=where).where == where


def test_one_column_may_be_given_as_a_text() -> None:
    """A text is one column, never its letters."""
    assert check_sql_arguments(table="orders", cursor="id").cursor == ("id",)


@pytest.mark.parametrize(
    ("table", "parts"),
    [("orders", (None, "orders")), ("shop.orders", ("shop", "orders")), ("db.shop.orders", ("db.shop", "orders"))],
)
def test_what_stands_before_the_last_dot_is_the_schema(table: str, parts: tuple[str | None, str]) -> None:
    """A table may be named with its schema, and with the database's name before that."""
    assert check_sql_arguments(table=table, cursor="id").schema_and_name == parts


def test_a_query_is_the_same_whatever_its_indentation_and_another_with_other_values() -> None:
    """What a watermark watches does not change when a query is laid out anew; its parameters belong to it."""
    one = check_sql_arguments(unique=True, sql="SELECT *\n  FROM t WHERE a = :a", parameters={"a": 1}, cursor="id")
    same = check_sql_arguments(unique=True, sql=" SELECT * FROM t\n\n WHERE a = :a ", parameters={"a": 1}, cursor="id")
    other = check_sql_arguments(unique=True, sql="SELECT * FROM t WHERE a = :a", parameters={"a": 2}, cursor="id")
    assert one.name == same.name == "query:56289f096e7b045c"
    assert other.name != one.name


def test_checking_loads_no_sqlalchemy() -> None:
    """A DAG file is parsed often, and the check is part of that."""
    code = (
        "import sys; from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments; "
        "print([name for name in ('sqlalchemy', 'asyncpg') if name in sys.modules])"
    )
    assert run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT row_number() OVER (ORDER BY id) AS n, \"limit\", 'ORDER BY' FROM t -- LIMIT 5",
        "SELECT id, offset, limit FROM log",
        "WITH newest AS (SELECT * FROM t ORDER BY id LIMIT 5) SELECT * FROM newest",
        "SELECT string_agg(a, ',' ORDER BY a) AS a, id FROM t GROUP BY id",
    ],
)
def test_what_stands_within_a_query_is_its_own_business(sql: str) -> None:
    """Orders and limits in parentheses, columns and texts of such names."""
    assert check_sql_arguments(sql=sql, cursor="id", unique=True).sql == sql


def test_a_query_is_another_with_other_spaces_in_a_literal() -> None:
    """Spaces and line breaks count where they are data or a name; single ones leave the name what it always was."""
    texts = {
        "SELECT ' a', '' FROM t": "query:65ea61e947149167",
        "SELECT '  a', '' FROM t": None,
        "SELECT '\ta', '' FROM t": None,
        'SELECT "  a", 1 FROM t': None,
        "SELECT $$  a$$, 1 FROM t": None,
        r"SELECT 'it\'s  a' FROM t": None,
        r"SELECT 'it\'s a' FROM t": "query:afba14360d9d3559",
        "SELECT 1 -- it's  one\n FROM  t": "query:4512101518902dc8",
        "SELECT 1 /* it's  one */ FROM t": "query:5b60c342bcb9aa5a",
    }
    names = {sql: check_sql_arguments(sql=sql, cursor="id", unique=True).name for sql in texts}
    assert len(set(names.values())) == len(texts)
    always = {sql: name for sql, name in texts.items() if name}
    assert always.items() <= names.items()


def test_a_condition_is_part_of_what_is_watched() -> None:
    """Another condition, or another value in it, is another selection; layout is not."""
    names = [
        check_sql_arguments(table="orders", cursor="id", where=where, parameters=parameters).name
        for where, parameters in (
            ("a = :a", {"a": 1}),
            (" a\n= :a ", {"a": 1}),
            ("a = :a", {"a": 2}),
            ("b = :a", {"a": 1}),
        )
    ]
    assert names[0] == names[1]
    assert len({*names, "orders"}) == 4
    assert names[0].startswith("orders?where=")
