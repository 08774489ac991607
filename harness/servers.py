"""Real servers for the tests and the demo, each on a free port and gone when its context ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness import containers, mariadb_server, postgres_server, s3_server
from harness.databases import DatabaseServer
from harness.mariadb_server import ServerMissingError
from harness.s3_server import S3Server

__all__ = ["DatabaseServer", "S3Server", "ServerMissingError", "mariadb", "postgres", "s3"]

MYSQL_URL = "INCREMENTAL_TEST_MYSQL_URL"


@contextmanager
def postgres() -> Iterator[DatabaseServer]:
    """Run PostgreSQL: as a container where a Docker engine answers, else from PyPI."""
    with containers.postgres() if containers.available() else postgres_server.running() as server:
        yield server


@contextmanager
def s3() -> Iterator[S3Server]:
    """Run an S3 server from PyPI."""
    with s3_server.running() as server:
        yield server


@contextmanager
def mariadb() -> Iterator[DatabaseServer]:
    """Give the MySQL or MariaDB that the environment names, or run MariaDB.

    :raises ServerMissingError: where there is none and none may be installed.
    """
    if url := os.environ.get(MYSQL_URL):
        yield mariadb_server.given(url)
        return
    with containers.mariadb() if containers.available() else mariadb_server.running() as server:
        yield server
