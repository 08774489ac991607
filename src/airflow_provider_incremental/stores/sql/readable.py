"""Values that another release may have written: refused with the name of their row, or shown as the text that they are.

What works with a value refuses one that it cannot read. What only lists rows shows it, so that one row hides no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_incremental.core import values
from airflow_provider_incremental.core.errors import StoreError, UnsupportedValueError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.core.watermark import Cursor

__all__ = ["UnreadableError", "listed_cursor", "listed_items", "require_readable"]

_CANNOT_BE_READ = (UnsupportedValueError, ValueError, RecursionError)
_LONGEST_SHOWN = 200


class UnreadableError(StoreError):
    """A row holds a value that this release cannot read."""


def require_readable(loads: Callable[[str], Any], text: str, what: str) -> Any:
    """Return the value of a text.

    :param what: which value of which row it is, for the message.
    :raises UnreadableError: when it cannot be read; nothing was changed.
    """
    try:
        return loads(text)
    except _CANNOT_BE_READ as error:
        msg = (
            f"{what} cannot be read here: {describe(error)}. It is kept as it is; upgrade airflow-provider-incremental "
            "on this machine to the newest release that uses this store"
        )
        raise UnreadableError(msg) from error


def listed_cursor(text: str | None) -> Cursor:
    """Return a cursor for a list: one that cannot be read stands there as its text, with the reason.

    >>> sorted(listed_cursor('{"$vector": "1,2"}'))
    ['because', 'unreadable']
    """
    if text is None:
        return None
    try:
        return values.loads(text)
    except _CANNOT_BE_READ as error:
        return {"unreadable": text[:_LONGEST_SHOWN], "because": describe(error)}


def listed_items(loads: Callable[[str], list[Any]], text: str | None) -> list[Any] | None:
    """Return the items of a batch for a list: None, as where none were read, when they cannot be."""
    if text is None:
        return None
    try:
        return loads(text)
    except _CANNOT_BE_READ:
        return None
