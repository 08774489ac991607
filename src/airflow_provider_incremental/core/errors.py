"""Every error of this package, on one page. Each says what happened, where, and what to do about it."""

from __future__ import annotations

__all__ = [
    "BatchHeldError",
    "ConfigurationError",
    "ConflictError",
    "IncrementalError",
    "LeaseLostError",
    "SourceError",
    "StoreError",
    "StoreNotMigratedError",
    "StoreUnavailableError",
    "UnsupportedValueError",
    "WatchesAnotherSourceError",
    "WrongStoreError",
]


class IncrementalError(Exception):
    """The root of all errors raised by this package."""


class ConfigurationError(IncrementalError, ValueError):
    """A parameter or a setting cannot be used; the message names it, its value and the remedy."""


class UnsupportedValueError(IncrementalError, TypeError):
    """A cursor or an item holds a value that has no JSON form."""


class SourceError(IncrementalError):
    """The source answered, but cannot be read as configured: no such table, no permission, a broken answer."""


class StoreError(IncrementalError):
    """The store of watermarks failed or refused."""


class StoreUnavailableError(StoreError):
    """The store's database cannot be reached."""


class StoreNotMigratedError(StoreError):
    """The store's database is there, but its tables are missing or from another release."""


class ConflictError(StoreError):
    """Somebody else moved the watermark since it was loaded: nothing was changed; load again and poll again."""


class WatchesAnotherSourceError(StoreError):
    """The watermark belongs to another source or another cursor; nothing was read or moved."""


class WrongStoreError(StoreError):
    """The announcement that started this run was made from another store than the one opened here."""


class LeaseLostError(StoreError):
    """A claim's lease ran out and another worker took the batch: this worker may not acknowledge it."""


class BatchHeldError(StoreError):
    """Another worker holds the batch that was asked for."""
