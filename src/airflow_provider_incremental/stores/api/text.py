"""The text of calls and answers; what is big is written piece by piece, so that no other thread waits for long."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.snapshot import Snapshot
from airflow_provider_incremental.stores.api.operations import Operation

__all__ = ["BIG", "call_text", "is_big"]

BIG = 100_000
"""Characters that take about a millisecond: more is for another thread."""

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DEPTH = 6
_A_VALUE = 20


def call_text(operation: Operation, store: Any, given: Sequence[Any], named: Mapping[str, Any], key: str | None) -> str:
    """Return a call as it stands in the body of a request.

    :raises UnsupportedValueError: when an argument holds a value without a JSON form.
    """
    arguments = _pieces(operation.encode(store, *given, **named), _DEPTH)
    keyed = "" if key is None else f',"idempotency_key":"{key}"'
    return f'{{"operation":"{operation.name}","arguments":{arguments}{keyed}}}'


def is_big(values: Sequence[Any]) -> bool:
    """Whether it takes long to write arguments down."""
    try:
        return _weight(values, BIG) > BIG
    except RecursionError:  # refused when it is written
        return True


def _pieces(form: Any, depth: int) -> str:
    """Return JSON text, made in many small calls: a single one keeps Python's lock until it is through."""
    if depth and isinstance(form, dict):
        return f"{{{','.join(f'{_ENCODER.encode(name)}:{_pieces(each, depth - 1)}' for name, each in form.items())}}}"
    if depth and isinstance(form, list):
        return f"[{','.join([_pieces(each, depth - 1) for each in form])}]"
    return _ENCODER.encode(form)


def _weight(value: Any, most: int) -> int:
    """Return about how many characters a value takes, or something above ``most`` as soon as that is sure."""
    if isinstance(value, (str, bytes, bytearray, memoryview)):
        return _A_VALUE + len(value)
    if isinstance(value, NewBatch):
        return _weight(value.items, most) + 22 * len(value.fingerprints)
    if isinstance(value, Snapshot):
        return value.weight
    if not isinstance(value, Collection):
        return _A_VALUE
    total = _A_VALUE
    for each in value.values() if isinstance(value, Mapping) else value:
        total += _weight(each, most - total)
        if total > most:
            break
    return total
