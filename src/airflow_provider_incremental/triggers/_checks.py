"""What the arguments of a trigger must be, and what is said of those that are not."""

from __future__ import annotations

import datetime as dt
from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["SHORTEST", "Seconds", "as_count", "as_names", "as_seconds"]

Seconds = float | dt.timedelta

SHORTEST = 0.01
_LONGEST = 10 * 366 * 86400.0
"""Seconds: counted from now, a longer time leaves the calendar of Python or of a store's database."""
_LONGEST_NAME = 250


def as_seconds(name: str, value: Any, *, least: float = 0.0) -> float:
    """Return a length of time in seconds.

    :raises ConfigurationError: when it is not one, shorter than ``least``, or longer than ten years.
    """
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not least <= seconds <= _LONGEST:
        remedy = f"give {least:g} seconds to ten years ({_LONGEST:.0f}), or a timedelta"
        raise ConfigurationError(f"{name}={value!r} is not a length of time that can be used; {remedy}")
    return float(seconds)


def as_count(name: str, value: Any) -> int:
    """Return a number of items.

    :raises ConfigurationError: when it is not a whole number from 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(f"{name}={value!r} is not a number of items; give a whole number from 1")
    return value


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of consumers.

    :raises ConfigurationError: when it is one text, or one of them cannot be a name.
    """
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigurationError(f"{name}={value!r} is not a list of names; give [{value!r}]")
    for each in value:
        if not isinstance(each, str) or not each.strip() or each != each.strip() or len(each) > _LONGEST_NAME:
            remedy = f"give 1 to {_LONGEST_NAME} characters without blanks at either end, such as a dag_id"
            raise ConfigurationError(f"{name}={value!r}: {each!r} is no name of a consumer; {remedy}")
    return tuple(value)
