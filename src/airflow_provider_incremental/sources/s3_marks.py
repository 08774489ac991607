"""What tells objects from those that were delivered before: marks of 16 bytes, which batches keep of their objects."""

from __future__ import annotations

import hashlib
from collections.abc import Set as AbstractSet

from airflow_provider_incremental.sources.s3_pages import ListedObject

__all__ = ["Marks"]

_NO_VERSION = (None, "null")  # the id of what was written without versions


class Marks:
    """Gives the marks of objects, and finds objects again, also by what was kept while overwrites were taken otherwise.

    :param ignores_overwrites: whether an object is the same whatever is written to its key.
    """

    def __init__(self, *, ignores_overwrites: bool) -> None:
        self._ignores_overwrites = ignores_overwrites

    def __call__(self, each: ListedObject) -> bytes:
        """Return the mark of an object. It is kept in stores: it may never change."""
        if self._ignores_overwrites:
            return _of_key(each)
        return _of_content(each) if each.version_id in _NO_VERSION else _of_version(each)

    def kept(self, each: ListedObject) -> tuple[bytes, ...]:
        """Return what is kept of a delivered object: of a version, also the mark that a listing of objects gives it."""
        if self._ignores_overwrites or each.version_id in _NO_VERSION:
            return (self(each),)
        return self(each), _of_content(each)

    def are_in(self, seen: AbstractSet[bytes], each: ListedObject, *, passed: bool) -> bool:
        """Whether an object was delivered.

        :param passed: whether the watermark has passed it. What then has the key of an object that was delivered while
            overwrites were ignored cannot be told from that object.
        """
        if not seen:
            return False
        if self(each) in seen or (self._has_another(each) and _of_content(each) in seen):
            return True
        return passed and not self._ignores_overwrites and _of_key(each) in seen

    def _has_another(self, each: ListedObject) -> bool:
        return self._ignores_overwrites or each.version_id not in _NO_VERSION


def _of_content(each: ListedObject) -> bytes:
    # Neither an etag nor a time holds a NUL, so the parts cannot be confused whatever the key holds.
    return _digest(f"{each.etag}\x00{each.last_modified.isoformat()}\x00{each.key}")


def _of_version(each: ListedObject) -> bytes:
    return _digest(f"version\x00{each.version_id}\x00{each.key}")


def _of_key(each: ListedObject) -> bytes:
    return _digest(f"key\x00{each.key}")


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).digest()
