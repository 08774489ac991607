"""Airflow's own commands make, upgrade, check and drop the store's tables in Airflow's database."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import airflow_provider_incremental
from airflow_provider_incremental.migrations import HEAD
from airflow_provider_incremental.migrations.manager import IncrementalDBManager
from airflow_provider_incremental.migrations.run import check, sql
from airflow_provider_incremental.stores.sql.tables import identity, metadata, version_table

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {*metadata.tables, version_table}


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """A session as Airflow hands it to a manager: of its own, synchronous driver."""
    engine = sa.create_engine(database.replace("mysql:", "mysql+pymysql:"), poolclass=NullPool)
    with Session(engine) as session:
        yield session
    engine.dispose()


def tables(session: Session) -> set[str]:
    with session.get_bind().connect() as connection:
        return set(sa.inspect(connection).get_table_names())


def identity_of(session: Session) -> str:
    with session.get_bind().connect() as connection:
        return connection.execute(sa.select(identity.c.identity)).scalar_one()


@pytest.mark.parametrize("method", ["upgradedb", "initdb", "create_db_from_orm"])
async def test_every_way_makes_a_whole_store(session, database, method):
    """However Airflow asks for the tables, the store gets its identity with them; asked again, it keeps it."""
    manager = IncrementalDBManager(session)
    assert manager.check_migration() is False
    getattr(manager, method)()
    first = identity_of(session)
    assert manager.check_migration() is True
    assert tables(session) == OURS
    await check(database)
    getattr(manager, method)()
    assert identity_of(session) == first


def test_takes_what_newer_releases_of_airflow_pass(session):
    """The flag of Airflow 3.2 for migration files changes nothing: they are always used."""
    IncrementalDBManager(session).initdb(use_migration_files=True)
    IncrementalDBManager(session).upgradedb(to_revision=HEAD, use_migration_files=True)
    assert tables(session) == OURS


def test_adopts_tables_without_a_version(session):
    """Tables without a version table are taken over with their data."""
    manager = IncrementalDBManager(session)
    manager.upgradedb()
    before = identity_of(session)
    with session.get_bind().begin() as connection:
        connection.execute(sa.text(f"DROP TABLE {version_table}"))
    manager.upgradedb()
    assert (manager.check_migration(), identity_of(session)) == (True, before)


def test_downgrade(session):
    """A downgrade to the base drops the tables, and check_migration says that they are missing."""
    manager = IncrementalDBManager(session)
    manager.upgradedb()
    manager.downgrade("base")
    assert tables(session) == {version_table}
    assert manager.check_migration() is False


def test_drop(session):
    """Airflow db reset drops every table of ours, and none of others."""
    manager = IncrementalDBManager(session)
    manager.upgradedb()
    with session.get_bind().begin() as connection:
        connection.execute(sa.text("CREATE TABLE others (id INTEGER)"))
        manager.drop_tables(connection)
    assert tables(session) == {"others"}


def test_sql_only(session, capsys):
    """With show_sql_only SQL is printed and nothing is done."""
    manager = IncrementalDBManager(session)
    manager.upgradedb(show_sql_only=True)
    assert capsys.readouterr().out.endswith(sql(session.get_bind().dialect.name))  # Airflow 3.0 logs there too
    manager.downgrade("base", show_sql_only=True)
    assert "DROP TABLE asset_watermarks;" in capsys.readouterr().out
    assert tables(session) == set()


@pytest.fixture
def airflow(tmp_path):
    """Run a command of an Airflow that has this package installed, with a database of its own."""
    tested = Path(airflow_provider_incremental.__file__).parents[1]
    _install_metadata(tmp_path / "site")
    settings = {
        "AIRFLOW_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join((str(tmp_path / "site"), str(tested))),
    }

    def run(program: list[str], url: str) -> subprocess.CompletedProcess:
        env = os.environ | settings | {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}
        done = subprocess.run([sys.executable, "-m", *program], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done

    return run


def _install_metadata(site: Path) -> None:
    """Write what an installation of this package would leave for Airflow to find."""
    installed = site / f"airflow_provider_incremental-{airflow_provider_incremental.__version__}.dist-info"
    installed.mkdir(parents=True)
    name, version = PROJECT["name"], airflow_provider_incremental.__version__
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, entries in PROJECT["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {place}" for key, place in entries.items())]
    (installed / "entry_points.txt").write_text("\n".join(lines))


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
async def test_airflow_db_migrate(airflow, database, session):
    """Airflow db migrate finds the manager by itself and makes the store; again and check-migrations change nothing.

    The store that is then named by a connection in Airflow's database is found by our own commands.
    """
    airflow(["airflow", "db", "migrate"], database)
    await check(database)
    before = identity_of(session)
    airflow(["airflow", "db", "migrate"], database)
    airflow(["airflow", "db", "check-migrations", "--migration-wait-timeout", "1"], database)
    assert identity_of(session) == before
    airflow(["airflow", "connections", "add", "watermarks", "--conn-uri", database], database)
    command = ["airflow_provider_incremental.cli", "db", "check", "--store", "conn:watermarks"]
    assert f"ready, at revision {HEAD}" in airflow(command, database).stdout
