"""Values of a row as :mod:`core.values` takes them: what it has no exact form for becomes text, here only."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from types import FunctionType
from typing import Any

__all__ = ["dictionaries", "plain"]

_BASES = (bool, int, float, str, bytes, Decimal, uuid.UUID, dt.datetime, dt.date, dt.time, dt.timedelta)
_EXACT = frozenset({type(None), *_BASES})


def plain(value: Any) -> Any:
    """Return a driver's value, exactly where its type has a form, else as the text that the driver writes for it.

    Buffers become bytes, arrays lists, sets sorted lists; what they hold is treated alike.

    >>> plain([memoryview(b"a"), {"b": 1}])
    [b'a', {'b': 1}]
    """
    if type(value) in _EXACT or isinstance(value, _BASES):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(each) for each in value), key=repr)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return str(value)


def dictionaries(names: Sequence[str]) -> Callable[[Iterable[Sequence[Any]]], list[dict[str, Any]]]:
    """Return a function that makes dictionaries of rows, by the names of their columns.

    It is compiled for the number of columns, as a dictionary display costs a third of ``dict(zip(names, row))``, which
    would be most of what a poll adds to the driver's time. No name is a part of what is compiled.

    >>> dictionaries(["id", "name"])([(1, "a"), (2, "b")])
    [{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]
    """
    pairs = ", ".join(f"name{number}: value{number}" for number in range(len(names)))
    values = "".join(f"value{number}, " for number in range(len(names)))
    code = compile(f"[{{{pairs}}} for ({values}) in rows]", "<rows>", "eval")
    named = {f"name{number}": name for number, name in enumerate(names)}

    def make(rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = FunctionType(code, {**named, "rows": rows})()
        return made

    return make
