"""The object storage's time, from the dates of its answers: so workers whose clocks differ agree on leases."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from airflow_provider_incremental.core.clock import Clock, SystemClock

__all__ = ["ServerClock"]

_SECOND = dt.timedelta(seconds=1)


class ServerClock:
    """This machine's clock, moved by as much as the service's dates show it to be wrong.

    A date says a whole second, and when the answer was written lies between the request and its arrival. As long as
    this machine's clock fits into that, it is left alone.

    :param given: a clock to go by instead, whatever the service says.
    """

    def __init__(self, given: Clock | None = None) -> None:
        self._given = given
        self._local = SystemClock()
        self._offset = dt.timedelta()

    def now(self) -> dt.datetime:
        """Return the service's time."""
        return self._given.now() if self._given else self._local.now() + self._offset

    def local(self) -> dt.datetime:
        """Return this machine's time, for :meth:`learn`."""
        return self._local.now()

    def learn(self, answer: Any, began: dt.datetime) -> None:
        """Take up the date of an answer, if it has one.

        :param began: this machine's time when the request was made.
        """
        metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, Mapping) else {}
        date = metadata.get("HTTPHeaders", {}).get("date")
        try:
            written = parsedate_to_datetime(date).astimezone(dt.UTC) if date else None
        except (TypeError, ValueError, OverflowError):
            return
        if written is not None:
            least, most = written - self._local.now(), written + _SECOND - began
            self._offset = min(max(self._offset, least), most)
