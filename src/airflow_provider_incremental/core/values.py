"""The one JSON form of typed values: cursors and items keep their type and precision through it.

What JSON itself can carry stays as it is. Everything else becomes an object with a single key that starts with ``$``:
``{"$decimal": "1.10"}``, ``{"$datetime": "2026-01-31T12:00:00.000001+00:00"}``. A user's own dictionary that could be
mistaken for one is wrapped, so that decoding is exact. Integers outside of the range that a double holds exactly are
written as text, since not every reader of JSON keeps them.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from airflow_provider_incremental.core.errors import UnsupportedValueError

__all__ = ["Json", "decode", "dumps", "encode", "loads"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_EXACT_IN_DOUBLE = 2**53
_STRICT = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=True)
_TOO_DEEP = "a value is nested too deeply to be kept in a cursor or an item; let the source give it as text"
_SURROGATE = re.compile("[\ud800-\udfff]")


def encode(value: Any) -> Json:
    """Return the JSON form of a value.

    :param value: None, bool, int, float, str, bytes, Decimal, UUID, date, time, datetime (naive or aware), timedelta,
        and lists, tuples and dictionaries of them. Subclasses (an ``IntEnum``, a ``str`` subclass) become their base.
    :raises UnsupportedValueError: for any other type, which the message names, or when it is nested too deeply.

    >>> encode((1, Decimal("1.10")))
    {'$tuple': [1, {'$decimal': '1.10'}]}
    """
    try:
        return _encode(value)
    except RecursionError:
        raise UnsupportedValueError(_TOO_DEEP) from None


def decode(value: Json) -> Any:
    """Return the value whose JSON form is given: the inverse of :func:`encode`.

    :raises UnsupportedValueError: when a tag is not known, as from a newer release, its content is not of its form, or
        it is nested too deeply.
    """
    try:
        return _decode(value)
    except RecursionError:
        raise UnsupportedValueError(_TOO_DEEP) from None


def dumps(value: Any) -> str:
    """Return the JSON text of a value: strict (no NaN), compact, the same text for the same value."""
    return _STRICT.encode(encode(value))


def loads(text: str) -> Any:
    """Return the value whose JSON text is given: the inverse of :func:`dumps`."""
    try:
        return _decode(json.loads(text))
    except RecursionError:
        raise UnsupportedValueError(_TOO_DEEP) from None


def _encode(value: Any) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _encode_text(str(value))
    if isinstance(value, int):
        return int(value) if abs(value) <= _EXACT_IN_DOUBLE else {"$int": str(int(value))}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, list):
        return [_encode(each) for each in value]
    if isinstance(value, tuple):
        return {"$tuple": [_encode(each) for each in value]}
    if isinstance(value, Mapping):
        return _encode_mapping(value)
    return _encode_scalar(value)


def _decode(value: Json) -> Any:
    if isinstance(value, list):
        return [_decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        tag, content = next(iter(value.items()))
        if tag.startswith("$"):
            return _decode_tagged(tag, content)
    return {name: _decode(each) for name, each in value.items()}


def _encode_text(value: str) -> Json:
    # A lone surrogate or a NUL is legal in Python's str, but not in every database's text: both travel as escapes.
    if "\x00" not in value and (value.isascii() or not _SURROGATE.search(value)):
        return value
    return {"$str": value.encode("utf-8", "surrogatepass").hex()}


def _encode_mapping(value: Mapping[Any, Any]) -> Json:
    plain = all(isinstance(name, str) and name.isprintable() for name in value)
    if plain and not any(name.startswith("$") for name in value):
        return {str(name): _encode(each) for name, each in value.items()}
    return {"$dict": [[_encode(name), _encode(each)] for name, each in value.items()]}


def _encode_scalar(value: Any) -> Json:
    for kind, (tag, write, _) in _SCALARS.items():
        if isinstance(value, kind):
            return {tag: write(value)}
    if isinstance(value, (bytearray, memoryview)):
        return _encode(bytes(value))
    msg = (
        f"a value of type {type(value).__module__}.{type(value).__qualname__} cannot be kept in a cursor or an item; "
        "convert it in the query or the source to a number, text, bytes, a date or a time"
    )
    raise UnsupportedValueError(msg)


def _decode_tagged(tag: str, content: Any) -> Any:
    reader = _READERS.get(tag)
    if reader is None:
        release = "it was written by a newer release; upgrade airflow-provider-incremental here"
        msg = f"unknown value tag {tag[:100]!r}: {release}"
        raise UnsupportedValueError(msg)
    try:
        if isinstance(content, list if tag in _OF_LISTS else str):
            return reader(content)
    except UnsupportedValueError:
        raise
    except (TypeError, ValueError, ArithmeticError):
        pass
    msg = f"the value {str(content)[:100]!r} is not of the form that {tag} has; write it as `show --output json` does"
    raise UnsupportedValueError(msg)


def _read_dict(pairs: list[list[Any]]) -> dict[Any, Any]:
    if not all(isinstance(pair, list) for pair in pairs):
        raise TypeError
    return {_decode(name): _decode(each) for name, each in pairs}


def _read_timedelta(parts: list[Any]) -> dt.timedelta:
    whole = [int(part) for part in parts]
    duration = dt.timedelta(*whole)
    # In the one form that it has; JSON makes no difference between 1 and 1.0.
    if not whole == parts == _seconds(duration) or any(isinstance(part, bool) for part in parts):
        raise ValueError
    return duration


def _seconds(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


# Order matters: a datetime is a date too.
_SCALARS: dict[type, tuple[str, Callable[[Any], Json], Callable[[Any], Any]]] = {
    Decimal: ("$decimal", str, Decimal),
    uuid.UUID: ("$uuid", str, uuid.UUID),
    bytes: ("$bytes", lambda value: base64.b64encode(value).decode("ascii"), partial(base64.b64decode, validate=True)),
    dt.datetime: ("$datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: ("$date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ("$time", dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: ("$timedelta", lambda value: list(_seconds(value)), _read_timedelta),
}
_READERS: dict[str, Callable[[Any], Any]] = {
    **{tag: read for tag, _, read in _SCALARS.values()},
    "$int": int,
    "$float": float,
    "$tuple": lambda content: tuple(_decode(each) for each in content),
    "$dict": _read_dict,
    "$str": lambda text: bytes.fromhex(text).decode("utf-8", "surrogatepass"),
}
_OF_LISTS = ("$tuple", "$dict", "$timedelta")
