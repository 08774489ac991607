"""The S3 source for keys that grow, such as dates, ULIDs and counters: in the order of keys, without a full listing.

A poll lists behind a key (``StartAfter``), so its cost does not grow with the bucket. Writers are not perfectly in
order, so the cursor is a pair: the key up to which everything was delivered, and a floor behind it from which the next
poll reads again what was modified in the last ``reread`` seconds, and what sorts after that. So an object is delivered
if it appears at most ``reread`` seconds after the first object with a greater key: see :mod:`~.s3_key_walk`.

Between two polls, ``_under_way`` is kept of a poll that a limit cut: while a backlog drains, the next one goes on where
it ended instead of at the floor. It is used only when that batch is among what was seen, so it may be lost at any time.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass
from typing import Unpack

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Baseline, Found
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments
from airflow_provider_incremental.sources.s3_key_walk import KeyWalk, Sightings
from airflow_provider_incremental.sources.s3_lessons import Lessons
from airflow_provider_incremental.sources.s3_listing import ListingClient, ListingClientFactory, Scan
from airflow_provider_incremental.sources.s3_options import ObjectOptions, ObjectSource
from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order

__all__ = ["S3KeyOrderSource"]

_WORTH_A_MOVE = 500  # objects read again, before the floor is moved although nothing was delivered: half a page
_UNDER_WAY_LASTS = 300.0  # seconds for which a backlog may drain, before what came late behind it is read


class S3KeyOrderSource(ObjectSource):
    """Delivers every object below a prefix whose key is greater than those before, and late ones within ``reread``.

    :param bucket: the bucket's name.
    :param prefix: only keys that start with it.
    :param reread: seconds, by the server's clock, in which a smaller key may still appear. 0 turns this off.
    :param client: as for :class:`~.s3_source.S3KeySource`.
    :param conn_id: the connection behind the client, as error messages name it.
    :param monotonic: seconds that never go backwards; for tests.
    :param options: which objects are meant: :class:`~.s3_options.ObjectOptions`.
    :raises ConfigurationError: when an argument cannot be used.

    >>> S3KeyOrderSource(bucket="landing", prefix="log/", client=client).watches.cursor
    'key'
    """

    def __init__(
        self,
        *,
        bucket: str,
        prefix: str = "",
        reread: float = 3600.0,
        client: ListingClient | ListingClientFactory,
        conn_id: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Unpack[ObjectOptions],
    ) -> None:
        check_s3_arguments(bucket=bucket, prefix=prefix, order="key", reread=reread, **options)
        super().__init__(
            bucket=bucket,
            prefix=prefix,
            static_prefix=prefix,
            client=client,
            conn_id=conn_id,
            monotonic=monotonic,
            **options,
        )
        self.lateness = float(reread)
        self._sightings = Sightings(self.lateness)
        self._lessons = Lessons({"sightings": self._sightings})
        self._under_way: _UnderWay | None = None

    @property
    def watches(self) -> Watches:
        """The prefix, and a cursor of keys."""
        return Watches(source=f"s3://{self._bucket}/{self._prefix}", cursor="key")

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        """Return the first ``limit`` objects behind the floor that were not seen, in the order of keys.

        :raises S3ListingError: when the listing fails before the limit is reached or the last page read.
        :raises SourceError: when the server does not list in the order of keys.
        """
        floor, key = _position(low)
        known = seen if isinstance(seen, AbstractSet) else frozenset(seen)
        await self._lessons.recall(self.memory)
        self._wanted.begin()
        began = self._monotonic()
        under_way = self._taken_up(low, known)
        if under_way is not None:
            walk, began = under_way.walk, under_way.began
            scan = await self._listing.begin(after=walk.last)
        else:
            scan = await self._listing.begin(after=floor)
            walk = self._walk(scan, floor)
        passed = key_order(key)

        def is_new(each: ListedObject) -> bool:
            return not self._marks.are_in(known, each, passed=key_order(each.key) <= passed) and self._wanted(each)

        taken: dict[bytes, ListedObject] = {}
        more = False
        async with aclosing(scan.pages()) as pages:
            async for objects in pages:
                more = self._take(objects, walk, taken, limit, is_new) or (len(taken) == limit and not scan.ends)
                if more:
                    break
        self._sightings.note(scan.by_now(), walk.last)
        high = walk.floor, max(key, walk.last, key=key_order)
        if more:
            self._under_way = _UnderWay(high=high, delivered=frozenset(taken), walk=walk, began=began)
        elif under_way is not None:  # what lies between the floor and where this poll began was not read again
            more = walk.floor != walk.last
        return self._found(low, high, walk.passed, taken, more)

    async def latest(self) -> Baseline:
        """Return the last key, and name the objects that the next poll reads again. Lists the whole prefix, once."""
        scan = await self._listing.begin()
        walk = self._walk(scan, "")
        marks: list[bytes] = []
        async with aclosing(scan.pages()) as pages:
            async for objects in pages:
                for each in objects:
                    walk.pass_over(each)
                    if walk.floor != each.key or self._ignores_overwrites:
                        marks += self._marks.kept(each)
                    else:
                        marks.clear()
        if not walk.last:
            return Baseline(cursor=None)
        self._sightings.note(scan.by_now(), walk.last)
        cursor, remember = (walk.floor, walk.last), self._lessons.changed()
        return Baseline(cursor=cursor, fingerprints=tuple(marks), remember=remember)

    async def at(self, cursor: Cursor) -> Baseline:
        """Return a baseline for a start behind a key."""
        return Baseline(cursor=None if cursor is None else _position(cursor))

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether a batch that ended at ``high`` may hold objects behind the floor of ``low``."""
        return key_order(_position(high)[1]) > key_order(_position(low)[0])

    def _walk(self, scan: Scan, floor: str) -> KeyWalk:
        if not self.lateness:
            return KeyWalk(floor, None)
        recent_from = scan.asked_at - dt.timedelta(seconds=self.lateness)
        return KeyWalk(floor, recent_from, self._sightings.ripe(scan.asked_at))

    def _taken_up(self, low: Cursor, seen: AbstractSet[bytes]) -> _UnderWay | None:
        """Return the walk of the poll before, if its batch was committed and it is not too old to go on with."""
        under_way, self._under_way = self._under_way, None
        if under_way is None or self._monotonic() - under_way.began > _UNDER_WAY_LASTS:
            return None
        return under_way if under_way.high == low and under_way.delivered <= seen else None

    def _take(
        self,
        objects: Sequence[ListedObject],
        walk: KeyWalk,
        taken: dict[bytes, ListedObject],
        limit: int,
        is_new: Callable[[ListedObject], bool],
    ) -> bool:
        """Take what is new of a page; whether the limit ended that early."""
        for each in objects:
            mark = self._marks(each) if is_new(each) else None
            new = mark is not None and mark not in taken
            if new and len(taken) == limit:
                return True
            walk.pass_over(each)
            if mark is not None:
                taken[mark] = each
        return False

    def _found(
        self, low: Cursor, high: tuple[str, str], passed: int, taken: dict[bytes, ListedObject], more: bool
    ) -> Found:
        # A floor that alone moves is not worth a commit, until it saves a request.
        same_key = low is not None and _position(low)[1] == high[1]
        stays = not taken and (not high[1] or (same_key and passed < _WORTH_A_MOVE))
        return Found(
            high=low if stays else high,
            items=[self._item(each) for each in taken.values()],
            fingerprints=[mark for each in taken.values() for mark in self._marks.kept(each)],
            more=more,
            note=self._wanted.note(),
            remember={} if stays else self._lessons.changed(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnderWay:
    """A walk that a limit cut, for the next poll to go on with."""

    high: tuple[str, str]
    delivered: frozenset[bytes]
    walk: KeyWalk
    began: float


def _position(cursor: Cursor) -> tuple[str, str]:
    """Return the floor and the key that a stored cursor means; a key alone is both."""
    match cursor:
        case None:
            return "", ""
        case str(key):
            return key, key
        case (str(floor), str(key)):
            return floor, key
    msg = f"cursor={cursor!r} is no position among keys; give a key, or a pair of the key to read again from and a key"
    raise SourceError(msg)
