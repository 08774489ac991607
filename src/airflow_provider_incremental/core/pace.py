"""When things happen: where a feed starts, how often it polls and announces, how it backs off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from airflow_provider_incremental.core.announcement import INLINE_BYTES
from airflow_provider_incremental.core.watermark import Cursor

__all__ = [
    "LONGEST_BACKOFF",
    "MAX_ATTEMPTS",
    "RETENTION",
    "RETRY_DELAY",
    "FeedSettings",
    "Patience",
    "StartAt",
    "backoff",
]

LONGEST_BACKOFF = 300.0
"""Seconds: what fails is tried again at least this often, or at its poll interval where that is longer."""

RETENTION = 30 * 86400.0
"""Seconds for which the log keeps a batch that nobody needs: for looking back, and for replays."""

MAX_ATTEMPTS = 20
"""With the delays between them, twelve hours at least: an outage over night kills no batch."""

RETRY_DELAY = 30.0
LONGEST_RETRY = 3600.0
"""Seconds: a batch that fails is tried again at least this often, as long as it is not dead."""


@dataclass(frozen=True, slots=True)
class StartAt:
    """A first poll from an explicit cursor."""

    cursor: Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedSettings:
    """The start and the paces of a feed, in seconds.

    :param limit: at most so many items a batch.
    :param confirm_after: a batch counts as delivered when the feed still runs so long after its announcement; None
        when somebody else calls :meth:`Feed.confirm`, who knows.
    :param consumers: who is known from the first poll on.
    :param inline_bytes: events carry the items of a batch that take at most so many.
    :param retention: for how long the log keeps what nobody needs; None: for ever.
    """

    start: Literal["earliest", "latest"] | StartAt
    limit: int
    poll_interval: float
    announce_interval: float
    redeliver_after: float
    confirm_after: float | None
    consumers: Sequence[str] = ()
    retention: float | None = RETENTION
    inline_bytes: int = INLINE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How often and how soon a consumer tries a batch that it failed at.

    :param max_attempts: after so many failures the batch is set aside as dead; None: never.
    :param retry_delay: seconds before the third attempt, doubled with each further one up to an hour; the second one
        may come at once, since most failures pass.

    >>> [Patience(max_attempts=9, retry_delay=30).delay(attempt) for attempt in (1, 2, 3, 20)]
    [0.0, 30.0, 60.0, 3600.0]
    >>> sum(Patience().delay(attempt) for attempt in range(1, MAX_ATTEMPTS)) // 3600
    12.0
    """

    max_attempts: int | None = MAX_ATTEMPTS
    retry_delay: float = RETRY_DELAY

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after an attempt has failed."""
        return 0.0 if attempt <= 1 else min(self.retry_delay * 2.0 ** min(attempt - 2, 30), LONGEST_RETRY)

    def gives_up(self, attempt: int) -> bool:
        """Whether this was the last attempt."""
        return self.max_attempts is not None and attempt >= self.max_attempts


def backoff(poll_interval: float, failures: int) -> float:
    """Return the seconds to wait after so many failures in a row: doubling from the poll interval up to the cap.

    >>> [backoff(60, failures) for failures in (1, 2, 3, 4)]
    [60.0, 120.0, 240.0, 300.0]
    """
    return min(poll_interval * 2.0 ** min(failures - 1, 16), max(LONGEST_BACKOFF, poll_interval))
