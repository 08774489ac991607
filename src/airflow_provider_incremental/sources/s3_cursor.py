"""Cursors in the order of time and key."""

from __future__ import annotations

import datetime as dt

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.sources.s3_pages import Position

__all__ = ["ahead_of_clock", "cursor_from", "position_of"]


def cursor_from(moment: dt.datetime) -> Position:
    """Return the cursor that lies just below every object modified at a moment or later.

    :param moment: aware, in any zone.
    :raises SourceError: when it has no time zone.

    >>> cursor_from(dt.datetime(2026, 1, 31, tzinfo=dt.UTC))[1]
    ''
    """
    return position_of(moment)


def position_of(cursor: Cursor) -> Position:
    """Return the position that a stored cursor means; a moment alone lies below every object of that moment."""
    match cursor:
        case (moment, key):
            pass
        case _:
            moment, key = cursor, ""
    if not isinstance(moment, dt.datetime) or moment.tzinfo is None or not isinstance(key, str):
        msg = (
            f"cursor={cursor!r} is no position among S3 objects; give a time with its zone, "
            "or a pair of such a time and a key"
        )
        raise SourceError(msg)
    return moment.astimezone(dt.UTC), key


def ahead_of_clock(low: Position, bound: dt.datetime) -> str:
    """Return what to say of a watermark that lies above the time up to which objects are taken."""
    return (
        f"the watermark is at {low[0].isoformat()}, ahead of the server's clock minus settle, {bound.isoformat()}: "
        "until then, only late objects come, of the time that lateness reaches back; if a clock was wrong, rewind the "
        "watermark"
    )
