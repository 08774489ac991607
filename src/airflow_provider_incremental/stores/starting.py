"""Where a consumer begins on a watermark that it is not known on yet: the same rule for every store."""

from __future__ import annotations

import datetime as dt

from airflow_provider_incremental.core.store import ConsumerStart

__all__ = ["start_on"]


def start_on(made_at: dt.datetime | None, met_at: dt.datetime | None, start: ConsumerStart) -> ConsumerStart:
    """Return where a consumer begins on one watermark.

    Its start counts when it is met. A watermark of the same asset that is made later, such as another key of it, has
    nothing from before: what it has committed until the consumer's next run belongs to the consumer.

    :param made_at: when the watermark was made.
    :param met_at: when the consumer was first met on any watermark of the asset; None when it never was.
    :param start: what the consumer asks for.

    >>> new_year, june = dt.datetime(2026, 1, 1), dt.datetime(2026, 6, 1)
    >>> start_on(june, new_year, "latest"), start_on(new_year, june, "latest"), start_on(june, None, "latest")
    ('earliest', 'latest', 'latest')
    """
    if made_at is not None and met_at is not None and made_at >= met_at:
        return "earliest"
    return start
