"""Servers and databases for every test, and an environment that says nothing about Airflow."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

from harness import servers
from harness.environment import scrub

# Before any test module imports Airflow, which reads its settings once, on import.
scrub(os.environ)
_AIRFLOW_HOME = tempfile.TemporaryDirectory(prefix="incremental-airflow-home-")
os.environ |= {
    "AIRFLOW_HOME": _AIRFLOW_HOME.name,
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
}
# Said once, this keeps older releases of pytest-asyncio from making a loop that nobody closes.
asyncio.set_event_loop(None)
# How long an example takes says nothing on a busy machine.
hypothesis.settings.register_profile("correctness", deadline=None)
hypothesis.settings.load_profile("correctness")


def pytest_unconfigure() -> None:
    """Remove Airflow's home."""
    _AIRFLOW_HOME.cleanup()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.DatabaseServer]:
    """A PostgreSQL server for the whole run; use ``postgres_database`` for a database of one's own."""
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[servers.S3Server]:
    """An S3 server for the whole run; make buckets of one's own in it."""
    with servers.s3() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[servers.DatabaseServer]:
    """A MariaDB or MySQL server for the whole run; its absence is a failure in CI and a loud skip elsewhere."""
    try:
        with servers.mariadb() as server:
            yield server
    except servers.ServerMissingError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT TESTED, NO MARIADB: {error}")


@pytest.fixture
def postgres_database(postgres_server: servers.DatabaseServer) -> Iterator[str]:
    """The address of an empty PostgreSQL database for one test."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def mysql_database(mariadb_server: servers.DatabaseServer) -> Iterator[str]:
    """The address of an empty MariaDB or MySQL database for one test."""
    url = mariadb_server.create_database()
    yield url
    mariadb_server.drop_database(url)
