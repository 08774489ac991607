"""What a poll has to list: a prefix, in ranges that were learned, or the partitions of the window and above."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_listing import S3Listing
from airflow_provider_incremental.sources.s3_pages import Position
from airflow_provider_incremental.sources.s3_partitions import Partitions
from airflow_provider_incremental.sources.s3_selection import window_floor
from airflow_provider_incremental.sources.s3_sweep import Follow, Offer, Range, Samples, SplitPoints, Sweep

__all__ = ["Scope"]

_MOST_PARTITIONS = 400  # with more of them, the whole prefix is listed, as for a backlog of years


class Scope:
    """Chooses what is listed, and learns from it.

    :param partitions: those of a prefix with dates.
    :param lateness: seconds behind the cursor that are read again.
    """

    def __init__(self, *, listing: S3Listing, partitions: Partitions | None, lateness: float) -> None:
        self.splits = SplitPoints(listing.place.prefix)
        self._listing = listing
        self._partitions = partitions
        self._lateness = lateness

    async def begin(self, low: Position | None) -> tuple[Sweep, Samples | None]:
        """Ask for the first page; where partitions are listed, there is nothing to be learned, so no samples."""
        if self._partitions is not None and low is not None:
            start = window_floor(low, self._lateness)
            first = Range(next(iter(self._partitions.between(start, start))))
            sweep = await Sweep.begin(self._listing, [first])
            if self._partitions.count(start, sweep.asked_at) <= _MOST_PARTITIONS:
                names = self._partitions.between(start, sweep.asked_at)
                sweep.add([Range(name) for name in names if name != first.prefix])
                return sweep, None
        with self._noticing():
            return await Sweep.begin(self._listing, self.splits.ranges()), Samples()

    async def walk(self, sweep: Sweep, offer: Offer, samples: Samples | None, follow: Follow | None = None) -> None:
        """List it all: see :meth:`~.s3_sweep.Sweep.walk`.

        :raises S3ListingError: when it cannot be listed to its end.
        """
        with self._noticing():
            await sweep.walk(offer, samples, follow)
        if samples is not None:
            self.splits.learn(samples)

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except S3ListingError as error:
            self.splits.fail(error)
            raise

    def falls_behind(self, reached: Position | None, bound: dt.datetime) -> bool:
        """Whether the next polls would list partitions in which nothing is found, were the cursor to stay."""
        if self._partitions is None or reached is None or bound <= reached[0]:
            return False
        kept = self._partitions.count(window_floor((bound, ""), self._lateness), bound)
        return self._partitions.count(window_floor(reached, self._lateness), bound) > kept + 1
