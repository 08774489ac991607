"""A position as people write it: read by the type of the present one, and written so that it can be read again."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError, UnsupportedValueError
from airflow_provider_incremental.core.values import Json, decode, encode
from airflow_provider_incremental.core.watermark import Cursor

__all__ = ["START", "forced", "from_json", "from_text", "is_ahead", "written"]

START = "(start)"
"""How the position before everything is shown."""

_MALFORMED = (ValueError, TypeError, ArithmeticError, AttributeError)
"""What the readers of standard types raise for content that is not theirs."""


def written(position: Cursor) -> str:
    """Return a position as text that :func:`from_text` reads again.

    >>> written((dt.date(2026, 1, 31), 12))
    '["2026-01-31", 12]'
    """
    if position is None:
        return START
    form = _plain(position)
    return form if isinstance(form, str) else json.dumps(form, ensure_ascii=False)


def from_text(text: str, present: Cursor) -> Cursor:
    """Read a position of the same type as the present one.

    :param text: text as it is where the present position is text; a list in JSON for a tuple; tagged JSON for any type.
    :raises ConfigurationError: when it is of another type, or the present position has none; with the remedy.
    """
    if isinstance(present, str):
        return text
    if present is None:
        msg = (
            f"the watermark is at {START}, so that the type of its positions is not known: give {text!r} as JSON with "
            '--force, as 1200, "text" or {"$datetime": "2026-01-31T12:00:00+00:00"}'
        )
        raise ConfigurationError(msg)
    structured = isinstance(present, (tuple, list)) or text.lstrip().startswith("{")
    return _fit(_parsed(text) if structured else text, present, present)


def from_json(text: str, present: Cursor) -> Cursor:
    """Read a position from JSON, of the same type as the present one; of any type when there is none.

    :raises ConfigurationError: when it is no JSON, or of another type; with the remedy.
    """
    form = _parsed(text)
    return _decoded(form) if present is None else _fit(form, present, present)


def forced(text: str) -> Cursor:
    """Read a position of whatever type: JSON, and what is no JSON as text."""
    try:
        form = json.loads(text)
    except ValueError:
        return text
    return _decoded(form)


def is_ahead(position: Cursor, present: Cursor) -> bool:
    """Whether a position is greater than the present one; no where they have no order in Python.

    A source may have another order for texts: its own decides, here it is only asked whether somebody means it.

    >>> is_ahead(("2026-02-01", 7), ("2026-01-31", 9)), is_ahead(None, 5), is_ahead({"part": 1}, {"part": 2})
    (True, False, False)
    """
    try:
        return bool(position > present)
    except TypeError:
        return False


def _plain(value: Any) -> Json:
    """Leave out the tags that the present position makes needless."""
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    for kind, (_, write, _) in _KINDS.items():
        if type(value) is kind:
            return write(value)
    return encode(value)


def _fit(form: Json, present: Any, whole: Cursor) -> Any:
    """Return the value that a JSON form means where the present value is of a certain type."""
    if isinstance(form, dict):
        value = _decoded(form)
    elif isinstance(present, (tuple, list)):
        value = _fit_elements(form, present, whole)
    elif present is None:
        value = _decoded(form)
    else:
        value = _read(form, present, whole)
    if present is not None and _kind(value) != _kind(present):
        raise _misfit(form, present, whole)
    return value


def _fit_elements(form: Json, present: Any, whole: Cursor) -> Any:
    if not isinstance(form, list) or len(form) != len(present):
        raise _misfit(form, present, whole)
    return type(present)(_fit(each, old, whole) for each, old in zip(form, present, strict=True))


def _read(form: Json, present: Any, whole: Cursor) -> Any:
    forms, _, read = _KINDS.get(type(present), ((), encode, decode))
    if isinstance(form, bool) != isinstance(present, bool) or not isinstance(form, forms):
        raise _misfit(form, present, whole)
    try:
        return read(form)
    except _MALFORMED as error:
        raise _misfit(form, present, whole) from error


def _parsed(text: str) -> Json:
    try:
        form: Json = json.loads(text)
    except ValueError as error:
        msg = f'{text!r} is not JSON ({error}); write a position of several values as ["2026-01-31", 1200]'
        raise ConfigurationError(msg) from error
    return form


def _decoded(form: Json) -> Any:
    try:
        return decode(form)
    except UnsupportedValueError as error:
        msg = f"{json.dumps(form)} is not a position in tagged JSON: {error}"
        raise ConfigurationError(msg) from error


def _misfit(form: Json, present: Any, whole: Cursor) -> ConfigurationError:
    shown = form if isinstance(form, str) else json.dumps(form)
    where = "" if present is whole else f" in {written(whole)}"
    return ConfigurationError(
        f"{shown!r} is no {_kind(present)}, as {written(present)}{where} is: write it like that, or as tagged JSON "
        "(see show --output json); --force takes it all the same, but the trigger's next poll may then fail"
    )


def _kind(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return "timestamp with a zone" if value.tzinfo else "timestamp without a zone"
    if isinstance(value, tuple):
        return f"list of {len(value)} values"
    return _NAMES.get(type(value), type(value).__name__)


_NAMES: dict[type, str] = {
    int: "integer",
    float: "number",
    str: "text",
    Decimal: "decimal number",
    dt.date: "date",
    dt.time: "time",
    uuid.UUID: "UUID",
    bool: "truth value",
    type(None): "position",
}
# Of each type that needs no tag: the JSON it is read from, how it is written, how it is read.
_KINDS: dict[type, tuple[tuple[type, ...], Callable[[Any], Json], Callable[[Any], Any]]] = {
    bool: ((bool,), bool, bool),
    int: ((int, str), int, int),
    float: ((int, float, str), lambda value: value if value - value == 0 else repr(value), float),
    Decimal: ((int, str), str, Decimal),
    str: ((str,), encode, str),
    dt.datetime: ((str,), dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: ((str,), dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ((str,), dt.time.isoformat, dt.time.fromisoformat),
    uuid.UUID: ((str,), str, uuid.UUID),
}
