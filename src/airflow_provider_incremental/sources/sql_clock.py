"""The upper edge of a poll: the database's own clock, in the column's own type, some seconds ago.

A column without zone holds somebody's wall clock. It is compared with the database's wall clock, or with that of the
zone that the user names, but never with that of a session or of this process, which may be any.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.sources.sql_columns import TIMESTAMPS, Column, Kind
from airflow_provider_incremental.sources.sql_texts import EDGE_NAMES

__all__ = ["Expression", "as_stamp", "instant_before"]

Expression = sa.sql.ColumnElement[Any]

_UTC = frozenset({"UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich", "Universal", "Zulu"})


def instant_before(dialect: str, column: Column, seconds: float, timezone: str | None) -> Expression | None:
    """Return the SQL expression of "so many seconds ago" that a timestamp column is compared with.

    :param dialect: SQLAlchemy's name of it.
    :param seconds: how far back; negative for a time to come.
    :param timezone: the zone whose wall clock the column holds; None for the database's own.
    :return: None where the column is no timestamp: it has no upper edge.
    :raises SourceError: when a zone is given for a column or a database that it cannot be used with.
    """
    if timezone is not None:
        _check_zone(dialect, column, timezone)
    if column.kind not in TIMESTAMPS:
        return None
    return _DIALECTS.get(dialect, _standard)(column, seconds, timezone)


def _check_zone(dialect: str, column: Column, timezone: str) -> None:
    if column.kind is not None and column.kind is not Kind.TIMESTAMP:
        what = column.kind.value
        msg = f"timezone={timezone!r} says which wall clock {column.name} holds, but that is {what}; leave it out"
    elif dialect not in ("postgresql", "mysql", "mariadb"):
        msg = f"timezone={timezone!r} cannot be used with {dialect}; watch a query that converts {column.name} to UTC"
    else:
        return
    raise SourceError(msg)


def _postgresql(column: Column, seconds: float, timezone: str | None) -> Expression:
    return as_stamp(sa.func.now(), column, seconds, timezone)


def as_stamp(instant: Expression, column: Column, seconds: float, timezone: str | None) -> Expression:
    """Return PostgreSQL's expression of so many seconds before an instant, as a column of timestamps holds it."""
    if column.kind is Kind.TIMESTAMP:
        # The session has the zone that the server gives it: nothing on this side sets one.
        instant = sa.cast(instant, sa.TIMESTAMP()) if timezone is None else sa.func.timezone(timezone, instant)
    return instant - sa.bindparam(f"{EDGE_NAMES}settle", seconds) * sa.literal_column("interval '1 second'")


def _mysql(column: Column, seconds: float, timezone: str | None) -> Expression:
    now = sa.func.utc_timestamp(sa.literal_column("6"))
    if column.kind is Kind.TIMESTAMP:
        zone = sa.literal_column("@@global.time_zone") if timezone is None else sa.literal(_mysql_zone(timezone))
        now = sa.func.convert_tz(now, "+00:00", zone)
    return sa.func.timestampadd(sa.literal_column("MICROSECOND"), round(seconds * -1_000_000), now)


def _mysql_zone(timezone: str) -> str:
    """Return the offset of a zone in which it never changes: a server knows that without having loaded any zones."""
    if timezone not in _UTC and not timezone.startswith("Etc/"):
        return timezone
    offset = dt.datetime.now(ZoneInfo(timezone)).strftime("%z")
    # Servers know one further ahead by its name only.
    return timezone if offset == "+1400" else f"{offset[:3]}:{offset[3:5]}"


def _sqlite(column: Column, seconds: float, _: str | None) -> Expression:
    separator = str(column.sample)[10:11] or " "
    return sa.func.strftime(f"%Y-%m-%d{separator}%H:%M:%S", "now", f"{-seconds:+.3f} seconds")


def _mssql(column: Column, seconds: float, _: str | None) -> Expression:
    now = sa.func.sysdatetimeoffset() if column.kind is Kind.INSTANT else sa.func.sysdatetime()
    return sa.func.dateadd(sa.literal_column("millisecond"), round(seconds * -1000), now)


def _oracle(column: Column, seconds: float, _: str | None) -> Expression:
    now: Expression = sa.literal_column("SYSTIMESTAMP")
    if column.kind is not Kind.INSTANT:
        now = sa.cast(now, sa.TIMESTAMP())
    return now - sa.func.numtodsinterval(seconds, "SECOND")


def _snowflake(column: Column, seconds: float, _: str | None) -> Expression:
    now = sa.func.current_timestamp() if column.kind is Kind.INSTANT else sa.func.localtimestamp()
    return sa.func.dateadd(sa.literal_column("second"), -math.ceil(seconds), now)


def _standard(column: Column, seconds: float, _: str | None) -> Expression:
    now = sa.func.current_timestamp() if column.kind is Kind.INSTANT else sa.func.localtimestamp()
    return now - sa.literal_column(f"INTERVAL '{math.ceil(seconds)}' SECOND")


_DIALECTS: dict[str, Callable[[Column, float, str | None], Expression]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "mariadb": _mysql,
    "sqlite": _sqlite,
    "mssql": _mssql,
    "oracle": _oracle,
    "snowflake": _snowflake,
}
