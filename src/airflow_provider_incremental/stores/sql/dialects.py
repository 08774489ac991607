"""The few differences between PostgreSQL, MySQL/MariaDB and SQLite, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import Insert

from airflow_provider_incremental.stores.sql.tables import UtcDateTime

__all__ = ["DIALECTS", "Dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one database says what all of them can do.

    :param insert_if_absent: an INSERT into a table that leaves an existing row as it is, and then counts no row.
    :param now: the database's clock in UTC; NULL where that is this machine's clock.
    :param begin_write: sent first in a transaction that writes.
    :param single_options: what a connection is set to for statements that are each a transaction.
    :param null_is_constant: whether a condition ``IS NULL`` on a column lets an index give the order of the next one.
    :param limits_packets: whether :mod:`packets` has to look at big batches.
    :param bytes_as_hex: whether bytes are handed over as text, since the driver gets them wrong.
    :param terminate: ends a connection of the driver without a word to the server, and without waiting for it.
    :param commits_in_one_statement: whether :mod:`hot_commit` serves this database.
    """

    insert_if_absent: Callable[[sa.Table], Insert]
    now: sa.sql.ColumnElement[Any]
    begin_write: str | None = None
    single_options: dict[str, Any]
    terminate: Callable[[Any], None]
    null_is_constant: bool = False
    limits_packets: bool = False
    bytes_as_hex: bool = False
    commits_in_one_statement: bool = False


def _postgresql_insert(table: sa.Table) -> Insert:
    return postgresql.insert(table).on_conflict_do_nothing()


def _sqlite_insert(table: sa.Table) -> Insert:
    return sqlite.insert(table).on_conflict_do_nothing()


def _mysql_insert(table: sa.Table) -> Insert:
    return sa.insert(table).prefix_with("IGNORE")


DIALECTS = {
    "postgresql": Dialect(
        insert_if_absent=_postgresql_insert,
        now=sa.func.clock_timestamp(type_=UtcDateTime()),
        # Saves BEGIN and COMMIT, each a round trip.
        single_options={"isolation_level": "AUTOCOMMIT"},
        terminate=lambda connection: connection.terminate(),
        commits_in_one_statement=True,
    ),
    "mysql": Dialect(
        insert_if_absent=_mysql_insert,
        now=sa.func.utc_timestamp(6, type_=UtcDateTime()),
        single_options={},
        terminate=lambda connection: connection.close(),
        null_is_constant=True,
        limits_packets=True,
        bytes_as_hex=True,  # aiomysql 0.3 with PyMySQL 1.2
    ),
    "sqlite": Dialect(
        insert_if_absent=_sqlite_insert,
        now=sa.cast(sa.null(), UtcDateTime()),
        # A transaction that reads first and writes later fails at once when another process wrote in between.
        begin_write="BEGIN IMMEDIATE",
        single_options={},
        terminate=lambda _: None,  # there is no network to wait for
    ),
}
