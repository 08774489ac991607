"""Rows that appeared late, behind the watermark: a window of it is read again, and what was delivered is left out."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from decimal import Context, Decimal
from typing import Any

from airflow_provider_incremental.core.batch import FINGERPRINT_BYTES
from airflow_provider_incremental.core.source import Memory, Pieces
from airflow_provider_incremental.core.values import dumps, loads
from airflow_provider_incremental.sources.sql_arguments import SqlSelection
from airflow_provider_incremental.sources.sql_keyset import edge_parameters, low_parameters
from airflow_provider_incremental.sources.sql_plan import Plan
from airflow_provider_incremental.sources.sql_readers import SqlReader
from airflow_provider_incremental.sources.sql_recorded import LATENESS

__all__ = ["LateRows", "mark_of", "window_start"]

_PAGE = 2000
_OFF = b"off"
_EXACTLY = Context(prec=150_000)
"""More digits than a numeric of any database has; by default Python keeps 28 of a difference."""
_WHOLE = 10**30
"""Below it, a number that is whole is written without an exponent."""


def window_start(value: Any, lateness: float) -> Any:
    """Return where a window begins that reaches back from a value; None where nothing lies before it.

    :param lateness: seconds before a time, units below a number.

    >>> window_start(dt.datetime(2026, 1, 31, 12), 60)
    datetime.datetime(2026, 1, 31, 11, 59)
    """
    try:
        if isinstance(value, str):
            began = dt.datetime.fromisoformat(value) - dt.timedelta(seconds=lateness)
            # Without a fraction it sorts before every text of its second.
            return began.replace(tzinfo=None, microsecond=0).isoformat(sep=value[10:11] or " ")
        if isinstance(value, dt.datetime):
            return value - dt.timedelta(seconds=lateness)
        if isinstance(value, dt.date):
            return value - dt.timedelta(days=math.ceil(lateness / 86400))
    except (OverflowError, ValueError):  # before the first day, or a text that is no time: everything is looked at
        return None
    if isinstance(value, Decimal):
        return _EXACTLY.subtract(value, Decimal(repr(lateness)))
    return value - (math.ceil(lateness) if isinstance(value, int) else lateness)


def mark_of(cursor: Sequence[Any]) -> bytes:
    """Return the fingerprint of a cursor: of its values, so that a column may get another scale or session zone.

    >>> mark_of((Decimal("1.00"), "a")) == mark_of((1, "a"))
    True
    """
    return _digest(tuple(map(_normal, cursor)))


def _is_among(seen: Collection[bytes], cursor: tuple[Any, ...]) -> bool:
    """Whether a row was delivered; fingerprints were of the values as the driver writes them once."""
    return mark_of(cursor) in seen or _digest(cursor) in seen


def _digest(cursor: tuple[Any, ...]) -> bytes:
    return hashlib.blake2b(dumps(cursor).encode(), digest_size=FINGERPRINT_BYTES).digest()


def _normal(value: Any) -> Any:
    """Return the one form of values that are equal to a database: 1 for 1.0 and 1.00, UTC for an instant."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        try:
            return value.astimezone(dt.UTC)
        except OverflowError:
            return value
    if isinstance(value, Decimal) and value.is_finite():
        value = _EXACTLY.normalize(value)
    if isinstance(value, (float, Decimal)) and -_WHOLE < value < _WHOLE and value == int(value):
        return int(value)
    return value


class LateRows:
    """Finds rows at or below a position that were not delivered.

    Fingerprints are kept since lateness was given: what lies at or below the position of that time was delivered. Of a
    start with fewer values than the cursor has columns, what lies before it was never asked for.
    """

    def __init__(self, *, reader: SqlReader, selection: SqlSelection) -> None:
        self._reader = reader
        self._selection = selection
        self._known = False
        self._floor: tuple[Any, ...] = ()

    async def begin(self, memory: Memory, position: tuple[Any, ...], seen: Collection[bytes]) -> Pieces:
        """Learn, once a process, since when fingerprints are kept; return what to remember of it."""
        if self._known:
            return {}
        kept = dict(await memory.read(prefix=LATENESS, limit=1)).get(LATENESS)
        if not self._selection.lateness:
            self._known = True
            return {} if kept in (None, _OFF) else {LATENESS: _OFF}
        if kept is not None and kept != _OFF:
            self._known, self._floor = True, tuple(loads(kept.decode()))
            return {}
        # The row at the position has its fingerprint when they were kept all along.
        self._floor = () if kept is None and _is_among(seen, position) else position
        return {LATENESS: dumps(self._floor).encode()}

    def forgotten(self, start: tuple[Any, ...]) -> Pieces:
        """Return what a baseline remembers: at a row it names its whole window, else nothing from before it counts."""
        floor = start if len(start) < len(self._selection.cursor) else ()
        return {LATENESS: dumps(floor).encode()} if self._selection.lateness else {}

    def marks(self, plan: Plan, rows: Iterable[Sequence[Any]]) -> list[bytes]:
        """Return the fingerprint of each row: of its cursor, so that a changed row is another one."""
        if not self._selection.lateness:
            return []
        return [mark_of(plan.cursor_of(row)) for row in rows]

    async def unseen(
        self, plan: Plan, position: tuple[Any, ...], limit: int, seen: Collection[bytes]
    ) -> list[Sequence[Any]]:
        """Return rows of the window that were not delivered, in order, at most so many."""
        late: list[Sequence[Any]] = []
        async for rows in self.window(plan, position):
            late += [row for row in rows if not _is_among(seen, plan.cursor_of(row))]
            if len(late) >= limit:
                break
        return late[:limit]

    async def window(self, plan: Plan, position: tuple[Any, ...]) -> AsyncGenerator[Sequence[Sequence[Any]], None]:
        """Yield the rows of the window that ends at a position, the position's own among them, page by page."""
        if not self._selection.lateness or len(position) < len(plan.cursor) or plan.shape.empty:
            return
        after = self._lower_bound(position)
        while True:
            statement = plan.keyset.above(len(after), _PAGE, "cursor")
            given = {**self._selection.values_to_bind, **low_parameters(after), **edge_parameters(position)}
            rows = await self._reader.fetch(statement, given)
            yield rows
            if len(rows) < _PAGE:
                return
            after = plan.cursor_of(rows[-1])

    def _lower_bound(self, position: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what rows of the window lie above: the floor, where it is no lower than lateness reaches."""
        start = window_start(position[0], self._selection.lateness)
        if self._floor and (start is None or self._floor[0] >= start):
            return self._floor
        return () if start is None else (start,)
