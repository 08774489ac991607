"""db upgrade, check and sql."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from airflow_provider_incremental.migrations import HEAD
from airflow_provider_incremental.migrations.run import sql


def test_upgrade_then_check(run, tmp_path):
    """An upgrade makes the tables; again is harmless; a check then agrees, and before it does not."""
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert run("db", "check", url=url).code == 1
    first, second, check = (run("db", command, url=url) for command in ("upgrade", "upgrade", "check"))
    assert (first.code, first.out) == (0, f"store {url}: now at revision {HEAD}\n")
    assert (second.code, second.out) == (0, f"store {url}: already at revision {HEAD}\n")
    assert (check.code, check.out) == (0, f"store {url}: ready, at revision {HEAD}\n")


def test_upgrade_by_connection(run, tmp_path, monkeypatch):
    """The store may be an Airflow connection."""
    path = tmp_path / "new.db"
    monkeypatch.setenv("AIRFLOW_CONN_WATERMARKS", f"sqlite:///{path}")
    done = run("db", "upgrade", url="conn:watermarks")
    assert done.code == 0, done.err
    assert path.is_file()


def test_sql_makes_the_tables(run, tmp_path):
    """What sql prints is a script that makes a store, and nothing but the script."""
    printed = run("db", "sql")
    assert printed.code == 0
    with closing(sqlite3.connect(tmp_path / "by_hand.db")) as database:
        database.executescript(printed.out)
    assert run("db", "check", url=f"sqlite:///{tmp_path / 'by_hand.db'}").code == 0


def test_sql_of_a_dialect(run):
    """The kind of database may be given, whatever the store is; nothing is connected to."""
    url = "postgresql://app:hunter2@127.0.0.1:1/none"
    assert run("db", "sql", "--dialect", "mysql", url=url).out.strip() == sql("mysql").strip()
    assert run("db", "sql", url=url).out.strip() == sql("postgresql").strip()


def test_memory_has_no_tables(run):
    """The store in memory has nothing to upgrade, and says what it is for."""
    refused = run("db", "upgrade", url="memory://")
    assert refused.code == 1
    assert "tests" in refused.err


def test_a_store_without_tables_is_checked_by_asking_it(run):
    """It answers, or the error says why not."""
    checked = run("db", "check", url="memory://")
    assert (checked.code, "it answers" in checked.out) == (0, True)
    gone = run("db", "check", url="api+http://:t@127.0.0.1:1?timeout=1")
    assert (gone.code, "127.0.0.1:1" in gone.err) == (1, True)
