"""What arguments of triggers and consumers must be, and what is said of those that are not."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeGuard

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = [
    "A_NAME",
    "SHORTEST",
    "Seconds",
    "as_count",
    "as_flag",
    "as_names",
    "as_part",
    "as_seconds",
    "as_start",
    "is_name",
    "refuse_templates",
]

Seconds = float | dt.timedelta

SHORTEST = 0.01
_LONGEST = 10 * 366 * 86400.0
"""Seconds: counted from now, a longer time leaves the calendar of Python or of a store's database."""
_LONGEST_NAME = 250
A_NAME = f"1 to {_LONGEST_NAME} characters without blanks at either end"
_TEMPLATE = re.compile(r"\{\{-?\s*[A-Za-z_][^{}]*\}\}|\{%.+?%\}", re.DOTALL)
_STARTS = ("earliest", "latest")
_ALIKE = 0.85


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
        raise ConfigurationError(f"{name}={value!r} is not a number that can be used; give a whole number from 1")
    return value


def as_flag(name: str, value: Any) -> bool:
    """Return yes or no.

    :raises ConfigurationError: when it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r} is neither True nor False; give one of them")
    return value


def is_name(value: Any) -> TypeGuard[str]:
    """Whether a value can be a consumer's name, which every store keeps as it is."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_NAME or value != value.strip():
        return False
    return "\x00" not in value and value.encode("utf-8", "replace").decode("utf-8") == value


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of consumers.

    :raises ConfigurationError: when it is one text, or one of them cannot be a name.
    """
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigurationError(f"{name}={value!r} is not a list of names; give [{value!r}]")
    for each in value:
        if not is_name(each):
            remedy = f"give {A_NAME}, such as a dag_id"
            raise ConfigurationError(f"{name}={value!r}: {each!r} is no name of a consumer; {remedy}")
    return tuple(value)


def as_part(name: str, value: Any) -> Any:
    """Return a namespace or a key; what is no text is refused with the watermark's name.

    :raises ConfigurationError: when it holds a slash.
    """
    if isinstance(value, str) and "/" in value:
        msg = (
            f"{name}={value!r} holds a slash, which stands between the parts of a watermark's name; give it without, "
            f"such as {value.replace('/', '.')!r}"
        )
        raise ConfigurationError(msg)
    return value


def as_start(value: Any) -> Any:
    """Return where to start; what else it can be is the trigger's to say.

    :raises ConfigurationError: for a word that is nearly one of the two that mean a start: it would be a position.
    """
    if isinstance(value, str) and value not in _STARTS and value.isalpha():
        alike = get_close_matches(value.lower(), _STARTS, n=1, cutoff=_ALIKE)
        if alike:
            raise ConfigurationError(f'start={value!r} is not a start; do you mean "{alike[0]}"?')
    return value


def refuse_templates(arguments: Mapping[str, Any]) -> None:
    """Refuse Jinja in a text: it would be taken as it is.

    :raises ConfigurationError: naming the argument.
    """
    for name, value in arguments.items():
        within = value.values() if isinstance(value, Mapping) else value
        for each in within if isinstance(value, (list, tuple, Mapping)) else [value]:
            if isinstance(each, str) and _TEMPLATE.search(each):
                msg = (
                    f"{name}={value!r} holds a template, and Airflow renders none in a trigger: there is no "
                    "run yet. Write the value itself, or compute it in the DAG file, as from the environment"
                )
                raise ConfigurationError(msg)
