"""What the journal says of each change by hand: the same words from every store."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_incremental.core.values import dumps
from airflow_provider_incremental.core.watermark import Cursor

__all__ = [
    "CRASHED",
    "FORGOTTEN",
    "REWATCHED",
    "UNSUBSCRIBED",
    "brought",
    "replayed",
    "rewound",
    "was_brought",
    "was_rewatched",
]

CRASHED = "every worker that took it died, or lost its lease"
FORGOTTEN = "deleted with its batches, claims and consumers"
REWATCHED = "may watch another source"
UNSUBSCRIBED = "consumer {} is forgotten"


def rewound(before: Cursor, after: Cursor, *, reread: bool, rewatch: bool) -> str:
    """Return what a rewind did.

    >>> rewound(7, None, reread=True, rewatch=False)
    'from 7 to the very start; delivers again what was delivered before'
    """
    detail = f"from {_place(before)} to {_place(after)}"
    if reread:
        detail += "; delivers again what was delivered before"
    return f"{detail}; {REWATCHED}" if rewatch else detail


def replayed(first_seq: int, last_seq: int, given: Mapping[str, int], *, dead_only: bool) -> str:
    """Return what a replay did.

    >>> replayed(3, 5, {"load": 2}, dead_only=True)
    'dead batches 3 to 5: 2 to load'
    """
    which = "dead batches" if dead_only else "batches"
    counts = ", ".join(f"{count} to {name}" for name, count in given.items()) or "nobody is known"
    return f"{which} {first_seq} to {last_seq}: {counts}"


def brought(store: str, version: int, last_seq: int) -> str:
    """Return where a watermark came from.

    :param store: the identity of the store that had it before.

    >>> was_brought("one", brought("one", 7, 3))
    True
    """
    return f"{_from(store)}, at version {version} with the batches up to {last_seq}"


def was_brought(store: str, detail: str) -> bool:
    """Whether an entry tells that a watermark came from this store."""
    return detail.startswith(f"{_from(store)}, ")


def was_rewatched(operation: str, detail: str) -> bool:
    """Whether an entry tells that a watermark may watch another source since then.

    >>> was_rewatched("rewind", rewound(7, None, reread=True, rewatch=True))
    True
    """
    return operation in ("rewatch", "rewind") and detail.endswith(REWATCHED)


def _from(store: str) -> str:
    return f"brought from the store {store}"


def _place(cursor: Cursor) -> str:
    return "the very start" if cursor is None else dumps(cursor)
