"""A watermark: how far a source has been read, with a version, what it watches, and how its last polls went."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError, WatchesAnotherSourceError

__all__ = ["Cursor", "PollReport", "Silence", "Watches", "Watermark", "WatermarkKey", "WatermarkStatus"]

Cursor = Any
"""A position in a source: one value, or a tuple of values, that :mod:`core.values` can encode. None: the very start."""

_MAX_NAME = 1500  # what Airflow allows for an asset's name
_MAX_PART = 250
_MISSED_AFTER = 60.0
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")  # no database has a NUL, or half a character, in a text


@dataclass(frozen=True, slots=True)
class WatermarkKey:
    """The name of a watermark: an asset's name, and a namespace and a key that set several of one asset apart."""

    asset_name: str
    namespace: str = "default"
    key: str = "default"

    def __post_init__(self) -> None:
        """Refuse names that could not be stored."""
        for name, value, limit in (
            ("asset_name", self.asset_name, _MAX_NAME),
            ("namespace", self.namespace, _MAX_PART),
            ("key", self.key, _MAX_PART),
        ):
            if not isinstance(value, str) or not value.strip() or len(value) > limit or _UNSTORABLE.search(value):
                own = getattr(value, "name", None)  # an Asset has one
                wanted = f"its name, {own!r}" if isinstance(own, str) else f"a text of 1 to {limit} characters"
                msg = f"{name}={value!r} is not a name of a watermark; give {wanted}"
                raise ConfigurationError(msg)

    @property
    def id(self) -> str:
        """The fixed-length id that every table uses: it does not depend on a database's collation or index limits."""
        text = json.dumps([self.asset_name, self.namespace, self.key])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def __str__(self) -> str:
        """Return the name as people write it: the parts that are not the default."""
        if self.key != "default":
            return f"{self.asset_name}/{self.namespace}/{self.key}"
        return self.asset_name if self.namespace == "default" else f"{self.asset_name}/{self.namespace}"


@dataclass(frozen=True, slots=True)
class Watches:
    """What a watermark is a position in: the source, and the shape of its cursor, each as one line of text."""

    source: str
    cursor: str

    def require_same(self, key: WatermarkKey, now_given: Watches) -> None:
        """Raise unless a trigger that comes with ``now_given`` may go on with a watermark that watches this.

        :raises WatchesAnotherSourceError: naming both sources and the three ways out.
        """
        if now_given == self:
            return
        msg = (
            f"watermark {key} is a position in {self.source} (cursor {self.cursor}), but the trigger now watches "
            f"{now_given.source} (cursor {now_given.cursor}). Nothing was read. Give the trigger another key=..., or "
            f"keep the position with `airflow-incremental set {key} --rewatch`, or start over with "
            f"`airflow-incremental rewind {key} --to earliest --rewatch`"
        )
        raise WatchesAnotherSourceError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkStatus:
    """How the last polls went: what people look at when data does not arrive.

    ``next_poll_at`` is when the trigger meant to poll again, if it said so.
    """

    last_poll_at: dt.datetime | None = None
    next_poll_at: dt.datetime | None = None
    last_error: str | None = None
    last_error_at: dt.datetime | None = None
    failures: int = 0
    conflicts: int = 0
    late_skipped: int = 0
    note: str | None = None

    def silence(self, now: dt.datetime) -> Silence | None:
        """Return how long no poll has come although one should have; None while it is in time, or nobody knows.

        In time is what comes at most once again the expected time late, and at least a minute: as long as a triggerer
        that was killed is missed by another.
        """
        if self.last_poll_at is None or self.next_poll_at is None:
            return None
        expected = max((self.next_poll_at - self.last_poll_at).total_seconds(), 0.0)
        since = (now - self.last_poll_at).total_seconds()
        return Silence(since, expected) if since > expected + max(expected, _MISSED_AFTER) else None


@dataclass(frozen=True, slots=True)
class Silence:
    """Seconds since the last poll, and after how many the next one was expected."""

    since: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A position in a source. ``version`` counts its moves; 0 means that no poll was ever committed.

    ``created_at`` tells it from one of the same name that was forgotten before: the one's versions are not the other's.
    ``last_seq`` is the number of the newest batch. Fingerprints of batches up to ``reread_after_seq`` do not count as
    seen any more: somebody rewound the watermark and wants those items again.
    """

    key: WatermarkKey
    cursor: Cursor
    version: int
    last_seq: int
    watches: Watches | None = None
    reread_after_seq: int = 0
    created_at: dt.datetime | None = None
    moved_at: dt.datetime | None = None
    status: WatermarkStatus = field(default_factory=WatermarkStatus)

    @property
    def started(self) -> bool:
        """Whether a first poll was committed, so that the start position is decided for good."""
        return self.version > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PollReport:
    """What a trigger tells the store of a poll that moved nothing.

    :param next_poll_in: seconds after which it means to poll again; None when that is not known.
    """

    error: str | None = None
    failures: int = 0
    conflicts: int = 0
    late_skipped: int = 0
    note: str | None = None
    next_poll_in: float | None = None

    def next_poll_at(self, now: dt.datetime) -> dt.datetime | None:
        """Return when the next poll is meant to be, by the clock that stamps this report."""
        return None if self.next_poll_in is None else now + dt.timedelta(seconds=self.next_poll_in)
