"""Values of a row as :mod:`core.values` takes them: what it has no exact form for becomes text, here only."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

__all__ = ["plain"]

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
