"""Values of a row as :mod:`core.values` takes them: what it has no exact form for becomes text, here only."""

from __future__ import annotations

import ast
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

    It is compiled for these names, as a dictionary display of constants costs half of ``dict(zip(names, row))``, which
    would be most of what a poll adds to the driver's time. Names are constants of a syntax tree, never program text.

    >>> dictionaries(["id", "name"])([(1, "a"), (2, "b")])
    [{'id': 1, 'name': 'a'}, {'id': 2, 'name': 'b'}]
    """
    values = [f"value{number}" for number in range(len(names))]
    tree = ast.parse(f"lambda rows: [{{}} for ({''.join(f'{value}, ' for value in values)}) in rows]", mode="eval")
    display = next(node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    display.keys = [ast.Constant(name) for name in names]
    display.values = [ast.Name(value, ast.Load()) for value in values]
    make: Callable[[Iterable[Sequence[Any]]], list[dict[str, Any]]]
    make = FunctionType(compile(ast.fix_missing_locations(tree), "<rows>", "eval"), {})()
    return make
