"""The JSON of single values: what is refused here would fail in some database, or in none but by accident."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import re
from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES
from airflow_provider_incremental.core.errors import ConfigurationError, UnsupportedValueError
from airflow_provider_incremental.stores.api import schemas
from airflow_provider_incremental.stores.api.schemas import (
    BASE64,
    FREE_TEXT,
    INTEGER,
    LONGEST_SPAN,
    SECONDS,
    TEXT,
    TIME,
)
from airflow_provider_incremental.stores.api.value_schema import ANY_VALUE

__all__ = ["ITEMS", "MARKS", "PIECE_NAME", "VALUE", "Form", "MalformedError", "checked", "of_kind", "scalar", "shown"]

_EXACT = 2**53  # what every reader of JSON takes for a whole number, with room for sums in databases
_MOST = 1_000_000
_LONGEST_SHOWN = 100
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_FREE = frozenset({"error", "note", "last_error", "source", "cursor"})
"""Fields of free text: what a store cannot keep of it, it replaces. In all other texts it is refused."""


class MalformedError(UnsupportedValueError):
    """An argument or an answer is not of the form that its operation has; the message says where."""


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """How values of one type travel.

    :param schema: their JSON schema.
    :param encode: from the value to JSON.
    :param decode: from JSON to the value; raises :class:`MalformedError`, given the place for its message.
    """

    schema: dict[str, Any]
    encode: Callable[[Any], Any]
    decode: Callable[[Any, str], Any]


def scalar(kind: Any, name: str) -> Form:
    """Return the form of a type that is no collection; the name of its field tells free texts."""
    if kind is str and name in _FREE:
        return checked(FREE_TEXT, lambda value: isinstance(value, str), "a text")
    if name in _NAMED:
        return _NAMED[name]
    if kind is dt.datetime:
        return _TIME
    if kind is bytes:
        return _BYTES
    return _SCALARS[kind]


def checked(schema: dict[str, Any], good: Callable[[Any], bool], what: str) -> Form:
    """Return the form of values that JSON has itself, which only have to be looked at."""

    def decode(value: Any, where: str) -> Any:
        if not good(value):
            msg = f"{where}={shown(value)} is not {what}"
            raise MalformedError(msg)
        return value

    return Form(schema, lambda value: value, decode)


def of_kind(kind: type[Any], value: Any, where: str) -> Any:
    """Return an array or an object, or refuse what is none."""
    if not isinstance(value, kind):
        msg = f"{where}={shown(value)} is not {'an array' if kind is list else 'an object'}"
        raise MalformedError(msg)
    return value


def _decode_int(value: Any, where: str, least: int = -_EXACT, most: int = _EXACT) -> int:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not least <= value <= most or value != int(value):  # 5.0 is a whole number in JSON
        msg = f"{where}={shown(value)} is not a whole number from {least} to {most}"
        raise MalformedError(msg)
    return int(value)


def _decode_limit(value: Any, where: str) -> int:
    return _decode_int(value, where, 0, _MOST)


def _is_storable(value: Any, most: int = 2**31) -> bool:
    return isinstance(value, str) and not _UNSTORABLE.search(value) and len(value) <= most


def _decode_seconds(value: Any, where: str) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not -LONGEST_SPAN <= value <= LONGEST_SPAN:
        msg = f"{where}={shown(value)} is not a number of seconds, of at most {LONGEST_SPAN:g}"
        raise MalformedError(msg)
    return float(value)


def _encode_seconds(value: float) -> float:
    return float(max(-LONGEST_SPAN, min(value, LONGEST_SPAN)))


def _decode_value(value: Any, where: str) -> Any:
    try:
        return values.decode(value)
    except UnsupportedValueError as error:
        msg = f"{where}: {error}"
        raise MalformedError(msg) from error


def _decode_items(value: Any, where: str) -> list[Any]:
    return [_decode_value(each, where) for each in of_kind(list, value, where)]


def _decode_time(value: Any, where: str) -> dt.datetime:
    try:
        time = dt.datetime.fromisoformat(value)
        if time.tzinfo is not None:
            return _in_utc(time)
    except (TypeError, ValueError):
        pass
    msg = f"{where}={shown(value)} is not a time with its zone, as 2026-01-31T12:00:00+00:00"
    raise MalformedError(msg)


_FIRST = dt.datetime.min.replace(tzinfo=dt.UTC)
_LAST = dt.datetime.max.replace(tzinfo=dt.UTC)


def _in_utc(time: dt.datetime) -> dt.datetime:
    try:
        return time.astimezone(dt.UTC)
    except OverflowError:  # by hours before the first or after the last that Python knows: as good as those
        return _FIRST if time.year == dt.MINYEAR else _LAST


def _encode_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode_bytes(value: Any, where: str) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    msg = f"{where}={shown(value)} is not base64"
    raise MalformedError(msg)


def _decode_marks(value: Any, where: str) -> tuple[bytes, ...]:
    joined = _decode_bytes(value, where)
    if len(joined) % FINGERPRINT_BYTES:
        msg = f"{where} has {len(joined)} bytes: fingerprints are {FINGERPRINT_BYTES} bytes each, one after the other"
        raise MalformedError(msg)
    return tuple(joined[at : at + FINGERPRINT_BYTES] for at in range(0, len(joined), FINGERPRINT_BYTES))


def shown(value: Any) -> str:
    """Return a value as an error shows it."""
    try:
        text = repr(value)
    except RecursionError:
        text = "something that is nested very deeply"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _name_form(longest: int) -> Form:
    """Return the form of a name that nobody can tell from a longer one, or from one with a blank more."""

    def decode(value: Any, where: str) -> str:
        if not _is_storable(value, longest) or not value or value != value.strip():
            msg = f"{where}={shown(value)} cannot be kept; give 1 to {longest} characters without blanks at either end"
            raise ConfigurationError(msg)
        return str(value)

    schema = {
        "type": "string",
        "minLength": 1,
        "maxLength": longest,
        "pattern": r"^[^\s\x00\x1c-\x1f\x85]([^\x00]*[^\s\x00\x1c-\x1f\x85])?$",
    }
    return Form(schema, lambda value: value, decode)


VALUE = Form(ANY_VALUE, values.encode, _decode_value)
ITEMS = Form({"type": "array", "items": ANY_VALUE}, lambda items: values.encode(list(items)), _decode_items)
MARKS = Form(schemas.MARKS, lambda marks: _encode_bytes(b"".join(marks)), _decode_marks)
"""Fingerprints, one after the other: they are many."""
_TIME = Form(TIME, dt.datetime.isoformat, _decode_time)
_BYTES = Form(BASE64, _encode_bytes, _decode_bytes)
_SCALARS = {
    str: checked(TEXT, _is_storable, "a text that every database can keep (no NUL, no half characters)"),
    bool: checked({"type": "boolean"}, lambda value: isinstance(value, bool), "true or false"),
    int: Form(INTEGER, int, _decode_int),
    float: Form(SECONDS, _encode_seconds, _decode_seconds),
    type(None): checked({"type": "null"}, lambda value: value is None, "null"),
}
PIECE_NAME = checked(
    TEXT | {"maxLength": 250}, lambda value: _is_storable(value, 250), "a name of at most 250 characters"
)
_NAMED = {
    "id": checked(TEXT | {"maxLength": 32}, lambda value: _is_storable(value, 32), "an id of at most 32 characters"),
    "limit": Form({"type": "integer", "minimum": 0, "maximum": _MOST}, int, _decode_limit),
    "consumer": _name_form(250),
    "holder": _name_form(1000),
}
