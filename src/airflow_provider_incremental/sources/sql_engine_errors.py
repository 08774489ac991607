"""What a driver says of a trouble, through SQLAlchemy, in our words: what, where, and what to do about it."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import URL

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.redact import without_secrets
from airflow_provider_incremental.sources.sql_threads import NoThreadFreeError

__all__ = ["EnginePlace"]

# By the number of MySQL's and MariaDB's error.
_REMEDIES = {
    1044: "grant the database to the user, or correct its name in the Airflow connection",
    1045: "correct the login and the password in the Airflow connection",
    1049: "correct the database's name in the Airflow connection",
    1054: "correct the name in cursor, columns or sql",
    1064: "correct the query. Dates and times compare with a text as it is, without a cast: day >= :day",
    1142: "grant it to the user: GRANT SELECT ON ...",
    1143: "grant it to the user: GRANT SELECT (...) ON ...",
    1205: "another session locks the table; the next poll tries again, until it is unlocked",
    1213: "nothing was read; the next poll tries again. Look for sessions that lock the tables",
    1227: "grant it to the user: GRANT PROCESS ON *.* TO ..., which shows the open transactions of others; or give "
    "visibility='none'",
    1146: "create it, or correct the name: 'schema.name' says which schema is meant; it has no quotes, and case counts",
    1969: "add an index on the cursor's columns in their order, or give it more time",
    3024: "add an index on the cursor's columns in their order, or give it more time",
}
_UNREACHABLE = "check that the server runs, and host, port, login and schema of the Airflow connection"
_UNREADABLE = "correct the names, the query or its parameters, or grant SELECT to the user"


class EnginePlace:
    """A server and a database as messages name them; makes errors out of what went wrong there."""

    def __init__(self, url: URL | None, *, timeout: float) -> None:
        self._text = _without_login(url) if url is not None else "the database"
        self._password = url.password if url is not None else None
        self._timeout = timeout

    def __str__(self) -> str:
        """Return dialect, host, port, database and user."""
        return self._text

    def cannot_connect(self, error: Exception) -> SourceError:
        """Return the error for a connection that could not be had."""
        return SourceError(f"cannot connect to {self}: {self._said(error)}; {_remedy(error) or _UNREACHABLE}")

    def cannot_read(self, what: str, error: Exception) -> Exception:
        """Return the error for a query that failed; one that is no :class:`SourceError` is temporary."""
        if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
            return ConnectionError(f"{self}: the connection was lost: {self._said(error)}")
        return SourceError(f"cannot read {what} at {self}: {self._said(error)}; {_remedy(error) or _UNREADABLE}")

    def no_answer(self, what: str, error: Exception) -> SourceError:
        """Return the error for a call that was not waited for any longer."""
        if isinstance(error, NoThreadFreeError):
            msg = (
                f"{self}: {what} was not begun within {self._timeout:g} s: queries before it still hang. They end when "
                "the driver gives up; set its time-out for reading in the Airflow connection's extra, or restart the "
                "triggerer"
            )
            return SourceError(msg)
        msg = (
            f"{self}: {what} had no answer within {self._timeout:g} s; check that the server answers, add an index on "
            "the cursor's columns in their order, or give it more time"
        )
        return SourceError(msg)

    def _said(self, error: Exception) -> str:
        # SQLAlchemy's own text repeats the statement and its values.
        said = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig is not None else error
        text = " ".join(without_secrets(str(said)).split()) or type(said).__name__
        return text.replace(str(self._password), "***") if self._password else text


def _remedy(error: Exception) -> str | None:
    original = error.orig if isinstance(error, sa.exc.DBAPIError) else None
    number = original.args[0] if original is not None and original.args else None
    return _REMEDIES.get(number) if isinstance(number, int) else None


def _without_login(url: URL) -> str:
    host = url.host or ""
    if url.port is not None:
        host = f"{host}:{url.port}"
    return f"{url.get_backend_name()}://{host}/{url.database or ''}" + (
        f" (user {url.username})" if url.username else ""
    )
