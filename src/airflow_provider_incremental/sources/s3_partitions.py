"""Prefixes with a date in them: which partitions hold the objects of a span of time, and which key lies in one.

``events/{date:%Y/%m/%d}/`` has a partition a day, ``year={date:%Y}/month={date:%m}/day={date:%d}/hour={date:%H}/`` one
an hour. A partition is named by the time at which it begins, in a named time zone.
"""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["Partitions"]

_PLACE = re.compile(r"\{date(?::([^{}]*))?\}")
_DIRECTIVE = re.compile(r"%(.?)")
_DIGITS = {"Y": "[0-9]{4}", "m": "[0-9]{2}", "d": "[0-9]{2}", "H": "[0-9]{2}"}
_AHEAD = dt.timedelta(minutes=5)
_FIRST, _LAST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(9000, 1, 1, tzinfo=dt.UTC)
_DAY, _HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)


class Partitions:
    """The partitions that a prefix with ``{date:...}`` describes.

    :param template: the prefix.
    :param timezone: the zone of its dates, by its IANA name.
    :raises ConfigurationError: when there is no whole date in it, or an unknown zone.

    >>> Partitions("in/{date:%Y-%m-%d}/", "UTC").static_prefix
    'in/'
    """

    def __init__(self, template: str, timezone: str) -> None:
        self._template = template
        self._zone = _zone(timezone)
        directives = [each for place in _PLACE.finditer(template) for each in _DIRECTIVE.findall(place[1] or "")]
        if not set(directives) <= _DIGITS.keys() or not {"Y", "m", "d"} <= set(directives):
            msg = (
                f"prefix={template!r} has no date that names a day or an hour; write %Y, %m, %d and, for hours, %H "
                "into {date:...}, such as 'events/{date:%Y/%m/%d}/'"
            )
            raise ConfigurationError(msg)
        self._step = _HOUR if "H" in directives else _DAY
        parts = _PLACE.split(template)
        self.static_prefix = parts[0]
        self._key = re.compile(
            "".join(_date_pattern(part) if at % 2 else re.escape(part) for at, part in enumerate(parts))
        )

    @staticmethod
    def are_in(prefix: str) -> bool:
        """Whether a prefix is a template: braces without ``date`` stand for themselves."""
        return "{date" in prefix

    def between(self, start: dt.datetime, end: dt.datetime) -> list[str]:
        """Return the prefixes from one time to another, and five minutes on, for writers whose clock is ahead."""
        names: dict[str, None] = {}
        moment, end = (min(max(each, _FIRST), _LAST) for each in (start, end))  # in the calendar of every zone
        last = max(end + _AHEAD, moment)
        # In half steps of absolute time, so that none is left out or named twice when clocks change.
        while moment <= last:
            names[self._name(moment)] = None
            moment += self._step / 2
        names[self._name(last)] = None
        return list(names)

    def count(self, start: dt.datetime, end: dt.datetime) -> int:
        """Return about how many there are, without naming them."""
        return max(int((end - start) / self._step), 0) + 1

    def below(self, key: str) -> int | None:
        """Return where the part of a key below its partition begins; None for a key that is in none."""
        match = self._key.match(key)
        return match.end() if match else None

    def _name(self, moment: dt.datetime) -> str:
        local = moment.astimezone(self._zone)
        return _PLACE.sub(lambda place: _formatted(place[1], local), self._template)


def _formatted(form: str, moment: dt.datetime) -> str:
    values = {"Y": f"{moment.year:04}", "m": f"{moment.month:02}", "d": f"{moment.day:02}", "H": f"{moment.hour:02}"}
    return _DIRECTIVE.sub(lambda directive: values[directive[1]], form)


def _date_pattern(form: str) -> str:
    parts = _DIRECTIVE.split(form)
    return "".join(_DIGITS[part] if at % 2 else re.escape(part) for at, part in enumerate(parts))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError) as error:
        msg = f"partition_timezone={name!r} is not a time zone; give an IANA name such as 'UTC' or 'Europe/Berlin'"
        raise ConfigurationError(msg) from error
