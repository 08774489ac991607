"""The database servers as containers, for machines where a Docker engine answers."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
from docker.errors import DockerException
from testcontainers.community.mysql import MySqlContainer
from testcontainers.community.postgres import PostgresContainer

from harness.databases import PASSWORD, DatabaseServer

__all__ = ["available", "mariadb", "postgres"]

_LOGIN = "incremental"
_SOCKET = Path("/var/run/docker.sock")


@functools.cache
def available() -> bool:
    """Whether a Docker engine answers; ``HARNESS_DOCKER=0`` says not to ask."""
    if os.environ.get("HARNESS_DOCKER") == "0":
        return False
    # Looked at first, because a client that finds no engine leaves its socket open.
    if "DOCKER_HOST" not in os.environ and not _SOCKET.exists():
        return False
    try:
        client = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except DockerException:
        return False
    finally:
        client.close()


@contextmanager
def postgres() -> Iterator[DatabaseServer]:
    """Run PostgreSQL 15, the oldest that the tests promise."""
    image = PostgresContainer("postgres:15", username=_LOGIN, password=PASSWORD, dbname="postgres")
    with image.with_command(
        "postgres -c fsync=off -c max_connections=300 -c max_prepared_transactions=50"
    ) as container:
        yield DatabaseServer(
            scheme="postgresql",
            host=container.get_container_host_ip(),
            port=int(container.get_exposed_port(5432)),
            user=_LOGIN,
            password=PASSWORD,
            database="postgres",
        )


@contextmanager
def mariadb() -> Iterator[DatabaseServer]:
    """Run MariaDB, logged in as root so that tests can create databases."""
    image = MySqlContainer(
        "mariadb:10.11", dialect="pymysql", username="root", root_password=PASSWORD, password=PASSWORD, dbname=_LOGIN
    )
    with image as container:
        yield DatabaseServer(
            scheme="mysql",
            host=container.get_container_host_ip(),
            port=int(container.get_exposed_port(3306)),
            user="root",
            password=PASSWORD,
            database=_LOGIN,
        )
