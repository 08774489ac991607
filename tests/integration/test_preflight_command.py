"""preflight: what it prints, its exit status, and what it refuses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest

from airflow_provider_incremental import SQLIncrementalQueryTrigger, preflight
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import ConfigurationError
from tests.integration.sql_stage import Database
from tests.unit.cli.conftest import Result


@pytest.fixture
def shop(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A database behind the Airflow connection ``shop``, with a table without an index on the cursor."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", postgres_database.replace("postgresql://", "postgres://"))
    database = Database(postgres_database)
    database.execute("CREATE TABLE orders (id integer PRIMARY KEY, updated_at timestamptz NOT NULL)")
    database.execute("INSERT INTO orders VALUES (1, '2026-01-31 12:00:00')")
    return database


@pytest.fixture
def look(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command; it has no store."""

    def command(*arguments: str) -> Result:
        capsys.readouterr()
        try:
            code = main(["preflight", *arguments])
        except SystemExit as leaving:
            code = leaving.code
        caught = capsys.readouterr()
        return Result(code, caught.out, caught.err)

    return command


@pytest.mark.usefixtures("shop")
def test_findings_and_the_statement_that_mends(look):
    """One paragraph a finding; then the DDL, ready to be run; a warning is no failure."""
    result = look("shop", "orders", "--cursor", "updated_at,id")
    assert result.code == 0
    assert "WARNING  index " in result.out
    assert "OK       uniqueness  no two rows agree in (updated_at, id)" in result.out
    assert result.out.rstrip().endswith(
        "CREATE INDEX CONCURRENTLY orders_updated_at_id_idx ON orders (updated_at, id);"
    )


@pytest.mark.usefixtures("shop")
def test_json(look):
    """The same for programs, whichever way the columns are written."""
    result = look("shop", "orders", "--cursor", "updated_at", "id", "-o", "json")
    assert result.json["ok"] is True
    assert result.json["ddl"] == ["CREATE INDEX CONCURRENTLY orders_updated_at_id_idx ON orders (updated_at, id)"]
    assert {finding["check"] for finding in result.json["findings"]} >= {"access", "types", "index", "clock"}


@pytest.mark.usefixtures("shop")
def test_what_could_not_be_polled_fails(look):
    """The exit status is 1, and the finding is printed all the same."""
    result = look("shop", "orders", "--cursor", "updated_at", "-o", "json")
    assert result.code == 1
    assert [each["check"] for each in result.json["findings"] if each["level"] == "error"] == ["uniqueness"]


@pytest.mark.usefixtures("shop")
def test_a_query(look):
    """In place of a table."""
    assert look("shop", "--sql", "SELECT id FROM orders", "--cursor", "id").code == 0


def test_the_triggers_own_words(look, shop):
    """A condition and the like are looked at as the trigger would."""
    shop.execute("ALTER TABLE orders ADD COLUMN code int", "INSERT INTO orders VALUES (2, '2026-01-31', 7)")
    given = ["shop", "orders", "--cursor", "code", "id", "-o", "json"]
    assert look(*given).code == 1
    assert look(*given, "--null-cursor", "skip").code == 0
    assert look(*given, "--where", "code IS NOT NULL").code == 0


def test_the_parameters_of_a_condition(look, shop):
    """Each is JSON, or else a text; with one of another type than its column it could not be polled."""
    shop.execute("ALTER TABLE orders ADD COLUMN status text NOT NULL DEFAULT 'paid'")
    given = ["shop", "orders", "--cursor", "id", "-o", "json", "--where", "status = :status AND id >= :least"]
    result = look(*given, "--parameter", "status=paid", "--parameter", "least=1")
    assert result.code == 0
    assert next(each["message"] for each in result.json["findings"] if each["check"] == "poll").endswith("finds 1 row")
    for wrong in (["status=paid", "least=x"], ["status=1", "least=1"]):
        result = look(*given, *(word for each in wrong for word in ("--parameter", each)))
        assert result.code == 1
        assert [each["check"] for each in result.json["findings"] if each["level"] == "error"] == ["poll"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["shop", "orders", "--cursor", "id", "--where", "id > :a", "--parameter", "a"], "write NAME=VALUE"),
        (["shop", "orders", "--cursor", "id", "--where", "id > 1", "--parameter", "a=1"], "where has no ':a'"),
        (["shop", "--cursor", "id"], "neither is given"),
        (["shop", "orders", "--sql", "SELECT 1", "--cursor", "id"], "both are given"),
        (["nowhere", "orders", "--cursor", "id"], "there is no connection 'nowhere' (conn_id)"),
        (["shop", "orders", "--cursor", ","], "cursor=[]"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_refused(look, arguments, said):
    """What is wrong with the arguments is said in one line."""
    result = look(*arguments)
    assert (result.code, result.out) == (1, "")
    assert said in result.err


def test_the_function(shop):
    """The same as a function, with the arguments of the trigger; it follows the table as it is now."""
    found = preflight("shop", table="orders", cursor=["updated_at", "id"])
    assert found.ok
    (ddl,) = found.ddl
    shop.execute(ddl.replace("CONCURRENTLY ", ""))
    assert preflight("shop", table="orders", cursor=["updated_at", "id"]).ddl == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"settle": -1}, "settle=-1"),
        ({"wher": "id > 1"}, "wher=... is no argument .* it has .*where"),
        ({"max_items": 5}, "give max_rows"),
        ({"removals": True}, "give primary_key"),
    ],
)
def test_the_function_refuses_what_no_trigger_takes(arguments, said):
    """Before it connects anywhere."""
    with pytest.raises(ConfigurationError, match=said):
        preflight("shop", **{"table": "orders", "cursor": "id", **arguments})


@pytest.mark.usefixtures("shop")
def test_the_function_takes_the_arguments_of_the_trigger_as_they_stand():
    """Also those that the database has no part in; what the first poll refuses of the others is refused."""
    given = {
        "asset_name": "orders",
        "table": "orders",
        "cursor": ["updated_at", "id"],
        "poll_interval": 60,
        "key": "eu",
        "where": "id > :least",
        "parameters": {"least": 0},
        "start": "latest",
        "max_rows": 10,
        "listen": "orders",
        "lateness": dt.timedelta(seconds=60),
        "consumers": ["load"],
        "removals": True,
        "primary_key": ["id"],
    }
    assert SQLIncrementalQueryTrigger(conn_id="shop", **given).listen == "orders"
    assert preflight("shop", **given).ok
    found = preflight("shop", **{**given, "primary_key": ["updated_at"]})
    assert [finding.check for finding in found.findings if finding.level == "error"] == ["poll"]
