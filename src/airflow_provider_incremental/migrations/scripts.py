"""Alembic, driven on a given connection or without one; loaded only where there is something to migrate.

Upgrades of one database at once, by threads, processes or machines, wait for each other: on SQLite for the write lock,
elsewhere for an advisory lock. On PostgreSQL and SQLite an upgrade is one transaction, all of it or nothing; MySQL
commits each step, and the steps find what is done already.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.migrations import HEAD
from airflow_provider_incremental.migrations.current import current_revision, refuse_newer

__all__ = ["CONFIGURATION", "PLACE", "downgrade_connection", "offline", "upgrade_connection"]

PLACE = Path(__file__).parent
CONFIGURATION = PLACE / "alembic.ini"

_LOCK_SECONDS = 600
_POSTGRES_LOCK = 0x6177_6D6B  # any number that nobody else takes: the letters "awmk"
_MYSQL_LOCK = "CONCAT('asset_watermark_', MD5(COALESCE(DATABASE(), '')))"  # a lock's name is known to the whole server

# Alembic's `op` and `context` are one per process.
_alembic_turn = threading.Lock()


def upgrade_connection(connection: sa.engine.Connection, where: str, revision: str = HEAD) -> bool:
    """Upgrade the database of a connection, in the transaction that it is in or begins; the caller commits.

    MySQL is the exception: it commits each statement that changes tables, and so everything is committed at the end.

    :param where: the database, as people may see it.
    :param revision: the one to upgrade to.
    :return: whether there was anything to do.
    :raises StoreNotMigratedError: when a newer release made the tables, or they are not the ones we know.
    :raises StoreUnavailableError: when another upgrade did not end in ten minutes.
    """
    with _alembic_turn, _locked(connection, where):
        present = current_revision(connection)
        refuse_newer(present, where)
        if present == revision:
            return False
        command.upgrade(_configuration(connection), revision)
        return True


def downgrade_connection(connection: sa.engine.Connection, where: str, revision: str) -> None:
    """Downgrade the database of a connection, as :func:`upgrade_connection` upgrades it.

    :param revision: the one to go back to; ``base`` drops the tables of the store.
    """
    with _alembic_turn, _locked(connection, where):
        command.downgrade(_configuration(connection), revision)


def offline(dialect: str, revisions: str, *, down: bool = False, out: TextIO | None = None) -> str:
    """Return the SQL of an upgrade or a downgrade, without connecting to a database.

    :param dialect: ``postgresql``, ``mysql`` or ``sqlite``.
    :param revisions: ``TO`` for an upgrade of an empty database, else ``FROM:TO``.
    :param out: where to write it as well.
    """
    text = io.StringIO()
    configuration = Config(str(CONFIGURATION), output_buffer=text)
    configuration.attributes["dialect"] = dialect
    with _alembic_turn:
        (command.downgrade if down else command.upgrade)(configuration, revisions, sql=True)
    if out is not None:
        out.write(text.getvalue())
    return text.getvalue()


def _configuration(connection: sa.engine.Connection) -> Config:
    configuration = Config(str(CONFIGURATION))
    configuration.attributes["connection"] = connection
    return configuration


@contextmanager
def _locked(connection: sa.engine.Connection, where: str) -> Generator[None, None, None]:
    """Hold the lock that upgrades of one database take in turn; what is read inside is what the last one left."""
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(sa.text(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'"))
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
        yield
    elif dialect == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield
    else:
        if connection.execute(sa.text(f"SELECT GET_LOCK({_MYSQL_LOCK}, {_LOCK_SECONDS})")).scalar() != 1:
            msg = f"another upgrade of the store {where} did not end in {_LOCK_SECONDS} s: see what it waits for"
            raise StoreUnavailableError(msg)
        try:
            yield
            connection.exec_driver_sql("COMMIT")  # the lock would not last until the caller does it
        finally:
            connection.execute(sa.text(f"SELECT RELEASE_LOCK({_MYSQL_LOCK})"))
