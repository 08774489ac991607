"""Which objects of a prefix are meant, what identifies them, and how they are handed on."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal
from urllib.parse import quote

from airflow_provider_incremental.sources.s3_pages import ListedObject
from airflow_provider_incremental.sources.s3_pattern import compile_choice
from airflow_provider_incremental.sources.s3_selection import is_folder_marker

__all__ = ["ObjectFilter", "OnOverwrite", "as_names", "item_of", "removed_item"]

log = logging.getLogger(__name__)

OnOverwrite = Literal["emit", "ignore"]

ARCHIVED = frozenset({"GLACIER", "DEEP_ARCHIVE"})
"""Classes of objects that have to be restored before they can be read."""


class ObjectFilter:
    """Says of each object whether it is meant, and keeps count of archived ones, which nobody could read.

    :param place: what log messages call the prefix.
    :param below: where in a key the part begins that patterns are over; None for a key that is not meant.
    :param storage_class: deliver these only, archived ones too; None: all that can be read.
    """

    def __init__(
        self,
        *,
        place: str,
        below: Callable[[str], int | None],
        pattern: str | None = None,
        regex: str | None = None,
        suffix: str | Sequence[str] | None = None,
        min_size: int = 0,
        storage_class: str | Sequence[str] | None = None,
    ) -> None:
        self._place = place
        self._below = below
        self._pattern = compile_choice(pattern, regex)
        self._suffixes = as_names(suffix)
        self._min_size = min_size
        self._classes = frozenset(as_names(storage_class) or ())
        self.rules = repr((pattern, regex, self._suffixes, min_size, sorted(self._classes)))
        """Which objects are meant, as a text: where it differs, others are."""
        self._archived: Counter[str] = Counter()
        self._example = ""
        self._said: str | None = None

    def begin(self) -> None:
        """Begin a listing: nothing is counted yet."""
        self._archived.clear()

    def __call__(self, each: ListedObject) -> bool:
        """Whether an object is delivered."""
        if not self.means(each):
            return False
        if not self._classes and each.storage_class in ARCHIVED:
            self._archived[each.storage_class] += 1
            self._example = each.key
            return False
        return True

    def means(self, each: ListedObject) -> bool:
        """Whether an object is meant, though it may be archived."""
        if is_folder_marker(each) or each.size < self._min_size or not self.names(each.key):
            return False
        return not self._classes or each.storage_class in self._classes

    def note(self) -> str | None:
        """Return what to say of archived objects that were left out since :meth:`begin`; logged when it changes."""
        if not self._archived:
            self._said = None
            return None
        classes = ", ".join(f"{count} in {name}" for name, count in sorted(self._archived.items()))
        note = (
            f"archived objects cannot be read and are not delivered: {classes}, such as {self._example!r}; name the "
            "classes in storage_class=[...] to have them all the same"
        )
        if note != self._said:
            self._said = note
            log.warning("%s: %s", self._place, note)
        return note

    def names(self, key: str) -> bool:
        """Whether an object with this key could be meant."""
        if self._suffixes is not None and not key.endswith(self._suffixes):
            return False
        start = self._below(key)
        return start is not None and (self._pattern is None or self._pattern.fullmatch(key, start) is not None)


def as_names(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """Return one name or several as several.

    >>> as_names(".csv")
    ('.csv',)
    """
    return value if value is None else (value,) if isinstance(value, str) else tuple(value)


def item_of(bucket: str, each: ListedObject) -> dict[str, Any]:
    """Return an object as consumers get it."""
    return removed_item(bucket, each.key) | {
        "size": each.size,
        "etag": each.etag,
        "last_modified": each.last_modified,
        "version_id": each.version_id,
        "storage_class": each.storage_class,
    }


def removed_item(bucket: str, key: str) -> dict[str, Any]:
    """Return what consumers get of an object that is gone."""
    return {"bucket": bucket, "key": key, "uri": f"s3://{bucket}/{quote(key, errors='surrogateescape')}"}
