"""What PostgreSQL and asyncpg say of a trouble, in our words: what, where, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import asyncpg

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import without_secrets

__all__ = ["PostgresPlace"]

# The first that fits counts: a missing table and a missing privilege are both errors of syntax or access.
_REMEDIES: tuple[tuple[type[BaseException], str], ...] = (
    (asyncpg.InvalidAuthorizationSpecificationError, "correct the login and the password in the Airflow connection"),
    (asyncpg.InvalidCatalogNameError, "correct the database's name in the Airflow connection"),
    (asyncpg.InsufficientPrivilegeError, "grant it to the user: GRANT USAGE ON SCHEMA ..., GRANT SELECT ON ..."),
    (
        asyncpg.DeadlockDetectedError,
        "nothing was read; the next poll tries again. Look for sessions that lock the tables",
    ),
    (asyncpg.LockNotAvailableError, "another session locks the table; the next poll tries again, until it is unlocked"),
    (
        asyncpg.UndefinedTableError,
        "create it, or correct the name: 'schema.name' says which schema is meant; it has no quotes, and case counts",
    ),
    (asyncpg.InvalidSchemaNameError, "create it, or correct the name"),
    (asyncpg.UndefinedColumnError, "correct the name in cursor, columns or sql"),
    (asyncpg.SyntaxOrAccessError, "correct the query"),
    (
        asyncpg.DataError,
        (
            "correct the query or its parameters: a value has to have the column's type. A text becomes one by a cast, "
            "as for a date: CAST(CAST(:name AS text) AS date)"
        ),
    ),
    (
        asyncpg.QueryCanceledError,
        "add an index on the cursor's columns in their order, or raise statement_timeout for the user",
    ),
    (
        ValueError,
        "a value lies outside of what Python can hold (a year before 1, 24:00:00); watch a query that casts it to text",
    ),
    (OverflowError, "a timestamp lies outside of the years 1 to 9999; watch a query that casts it to text"),
)
_LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
# What asyncpg says of a connection that the server has ended, and which it noticed before it was used.
_GONE = re.compile(r"\bclosed\b|\bclosing\b|released back to the pool")
_UNREACHABLE = "check that the server runs, and host, port and database of the Airflow connection"


class PostgresPlace:
    """A server and a database as messages name them; makes errors out of what went wrong there."""

    def __init__(self, arguments: Mapping[str, Any], *, timeout: float) -> None:
        host, port = arguments.get("host") or "localhost", arguments.get("port") or 5432
        user = arguments.get("user")
        database = arguments.get("database") or user or "?"
        self._text = f"postgresql://{host}:{port}/{database}" + (f" (user {user})" if user else "")
        self._password = arguments.get("password")
        self._timeout = timeout

    def __str__(self) -> str:
        """Return host, port, database and user."""
        return self._text

    def cannot_connect(self, error: Exception, *, busy: bool) -> SourceError:
        """Return the error for a connection that could not be had.

        :param busy: whether all connections that may be open are in use.
        """
        if isinstance(error, TimeoutError):
            why = f"all connections of this process to it have been busy for {self._timeout:g} s"
            if not busy:
                why = f"it did not answer within {self._timeout:g} s"
            return SourceError(f"cannot connect to {self}: {why}; {_UNREACHABLE}")
        remedies = [remedy for kind, remedy in _REMEDIES[:2] if isinstance(error, kind)]
        remedy = remedies[0] if remedies else _UNREACHABLE
        return SourceError(f"cannot connect to {self}: {self._said(error)}; {remedy}")

    def cannot_read(self, what: str, error: Exception) -> Exception:
        """Return the error for a query that failed; one that is no :class:`SourceError` is temporary."""
        if isinstance(error, TimeoutError):
            msg = (
                f"{self}: {what} had no answer within {self._timeout:g} s and was cancelled; add an index on the "
                "cursor's columns in their order, or give it more time"
            )
            return SourceError(msg)
        for kind, remedy in _REMEDIES:
            if isinstance(error, kind):
                return SourceError(f"cannot read {what} at {self}: {self._said(error)}; {remedy}")
        if isinstance(error, _LOST) or (isinstance(error, asyncpg.InterfaceError) and _GONE.search(str(error))):
            return ConnectionError(f"{self}: the connection was lost: {self._said(error)}")
        return error

    def _said(self, error: Exception) -> str:
        text = " ".join(without_secrets(str(error)).split()) or type(error).__name__
        return text.replace(str(self._password), "***") if self._password else text
