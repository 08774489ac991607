"""A running database server: its address, and databases made in it for one use each."""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import psycopg2
import pymysql

__all__ = ["PASSWORD", "DatabaseServer"]

PASSWORD = f"pw{secrets.token_hex(8)}"
"""Of every database here. It is no word: a test that looks for it in a log finds it, and nothing else of that name."""

_serial = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class DatabaseServer:
    """Where a database server answers and how a client logs in.

    :param scheme: ``postgresql`` or ``mysql``, without the name of a driver.
    :param database: a database that is always there.
    """

    scheme: str
    host: str
    port: int
    user: str
    password: str
    database: str

    @property
    def url(self) -> str:
        """The address of the database that is always there."""
        return self.url_of(self.database)

    def url_of(self, database: str) -> str:
        """Return the address of a database of this server."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"{self.scheme}://{login}@{self.host}:{self.port}/{database}"

    def create_database(self, name: str | None = None, *, template: str | None = None) -> str:
        """Create a database and return its address.

        :param name: made up, and new to this server, when not given.
        :param template: PostgreSQL only: the database to copy, which nobody may be connected to.
        """
        name = name or f"t{os.getpid()}_{next(_serial)}"
        # Copying files beats copying through the log where nothing waits for the disk.
        copied = f" TEMPLATE {template} STRATEGY file_copy" if template else ""
        self.execute(f"CREATE DATABASE {name}{copied}")
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Drop the database of an address that :meth:`create_database` returned, whoever is connected to it."""
        name = urlsplit(url).path.lstrip("/")
        force = " WITH (FORCE)" if self.scheme == "postgresql" else ""
        self.execute(f"DROP DATABASE IF EXISTS {name}{force}")

    def execute(self, statement: str) -> None:
        """Run one statement, outside of any transaction, in the database that is always there."""
        if self.scheme == "postgresql":
            self._execute_postgresql(statement)
        else:
            self._execute_mysql(statement)

    def _execute_postgresql(self, statement: str) -> None:
        with closing(psycopg2.connect(self.url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)

    def _execute_mysql(self, statement: str) -> None:
        login = {"user": self.user, "password": self.password, "database": self.database}
        with (
            closing(pymysql.connect(host=self.host, port=self.port, autocommit=True, **login)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)

    def answers(self) -> bool:
        """Whether the server lets its user in and runs a statement."""
        try:
            self.execute("SELECT 1")
        except (psycopg2.OperationalError, pymysql.OperationalError):
            return False
        return True
