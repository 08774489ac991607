"""The database's clock, which all workers share: leases agree although the clocks of their machines do not."""

from __future__ import annotations

import datetime as dt

from airflow_provider_incremental.core.clock import Clock

__all__ = ["DatabaseClock"]

_MEASURE_EVERY = 300.0
_JUMP = 1.0


class DatabaseClock:
    """Tells the database's time from this machine's, by an offset that is measured now and then.

    :param local: this machine's clock. Its monotonic side carries the time between two measurements, so that a step of
        its wall clock moves no lease; such a step, or a suspended machine, asks for a new measurement.
    """

    def __init__(self, *, local: Clock) -> None:
        self._local = local
        self._measured: dt.datetime | None = None
        self._offset = dt.timedelta()
        self._at = 0.0
        self._wall = local.now()

    def begin(self) -> float:
        """Return the start of a round trip, to be handed to :meth:`measured`."""
        return self._local.monotonic()

    def measured(self, database: dt.datetime | None, began: float) -> None:
        """Take the database's time, which it told in a round trip that began then and ends now.

        :param database: None when the database's clock is this machine's.
        """
        ended = self._local.monotonic()
        self._at = (began + ended) / 2
        self._wall = self._local.now() - dt.timedelta(seconds=ended - self._at)
        self._measured = database

    @property
    def stale(self) -> bool:
        """Whether it is time for another measurement."""
        since = self._local.monotonic() - self._at
        jumped = abs((self._local.now() - self._wall).total_seconds() - since) > _JUMP
        return since > _MEASURE_EVERY or jumped

    def now(self) -> dt.datetime:
        """Return the present instant by the database's clock, aware, in UTC."""
        if self._measured is None:
            return self._local.now()
        return self._measured + dt.timedelta(seconds=self._local.monotonic() - self._at)
