"""The S3 source for keys that grow, such as dates, ULIDs and counters: in the order of keys, without a full listing.

A poll lists behind a key (``StartAfter``), so its cost does not grow with the bucket. Writers are not perfectly in
order, so the cursor is a pair: the key up to which everything was delivered, and a floor behind it from which the next
poll reads again what was modified in the last ``reread`` seconds, and what sorts after that. So an object is delivered
if it appears at most ``reread`` seconds after the first object with a greater key.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from typing import Unpack

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Baseline, Found
from airflow_provider_incremental.core.watermark import Cursor, Watches
from airflow_provider_incremental.sources.s3_arguments import check_s3_arguments
from airflow_provider_incremental.sources.s3_listing import ListingClient, ListingClientFactory, Scan
from airflow_provider_incremental.sources.s3_options import ObjectOptions, ObjectSource
from airflow_provider_incremental.sources.s3_pages import ListedObject, key_order

__all__ = ["S3KeyOrderSource"]

_WORTH_A_MOVE = 500  # objects read again, before the floor is moved although nothing was delivered: half a page


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
        self._wanted.begin()
        scan = await self._listing.begin(after=floor)
        walk = self._walk(scan, floor)
        taken: dict[bytes, ListedObject] = {}
        more = False
        async with aclosing(scan.pages()) as pages:
            async for objects in pages:
                more = self._take(objects, walk, taken, limit, known) or (len(taken) == limit and not scan.ends)
                if more:
                    break
        return self._found(low, (walk.floor, max(key, walk.last, key=key_order)), walk, taken, more)

    async def latest(self) -> Baseline:
        """Return the last key, and name the objects that the next poll reads again. Lists the whole prefix, once."""
        scan = await self._listing.begin()
        walk = self._walk(scan, "")
        marks: list[bytes] = []
        async with aclosing(scan.pages()) as pages:
            async for objects in pages:
                for each in objects:
                    walk.pass_over(each)
                    if walk.meets_recent or self._ignores_overwrites:
                        marks.append(self._mark(each))
        return Baseline(cursor=(walk.floor, walk.last) if walk.last else None, fingerprints=tuple(marks))

    async def at(self, cursor: Cursor) -> Baseline:
        """Return a baseline for a start behind a key."""
        return Baseline(cursor=None if cursor is None else _position(cursor))

    def in_window(self, high: Cursor, low: Cursor) -> bool:
        """Whether a batch that ended at ``high`` may hold objects behind the floor of ``low``."""
        return key_order(_position(high)[1]) > key_order(_position(low)[0])

    def _walk(self, scan: Scan, floor: str) -> _Walk:
        reread = dt.timedelta(seconds=self.lateness)
        return _Walk(floor, recent_from=scan.asked_at - reread if reread else None)

    def _take(
        self,
        objects: Sequence[ListedObject],
        walk: _Walk,
        taken: dict[bytes, ListedObject],
        limit: int,
        known: AbstractSet[bytes],
    ) -> bool:
        """Take what is new of a page; whether the limit ended that early."""
        for each in objects:
            mark = self._mark(each)
            new = mark not in known and mark not in taken and self._wanted(each)
            if new and len(taken) == limit:
                return True
            walk.pass_over(each)
            if new:
                taken[mark] = each
        return False

    def _found(
        self, low: Cursor, high: tuple[str, str], walk: _Walk, taken: dict[bytes, ListedObject], more: bool
    ) -> Found:
        # A floor that alone moves is not worth a commit, until it saves a request.
        same_key = low is not None and _position(low)[1] == high[1]
        stays = not taken and (not high[1] or (same_key and walk.passed < _WORTH_A_MOVE))
        return Found(
            high=low if stays else high,
            items=[self._item(each) for each in taken.values()],
            fingerprints=tuple(taken),
            more=more,
            note=self._wanted.note(),
        )


class _Walk:
    """Goes over objects in the order of keys, and finds the floor of the next poll."""

    def __init__(self, floor: str, recent_from: dt.datetime | None) -> None:
        self.floor = floor
        self.last = floor
        self.passed = 0
        self.meets_recent = False
        self._recent_from = recent_from

    def pass_over(self, each: ListedObject) -> None:
        """Leave an object behind: it is delivered, or not meant."""
        if self.last and key_order(each.key) < key_order(self.last):
            msg = (
                f"order='key': the server lists {each.key!r} after {self.last!r}, which is not the order of keys; "
                "give order='modified'"
            )
            raise SourceError(msg)
        if self._recent_from is not None and each.last_modified >= self._recent_from:
            self.meets_recent = True
        self.last = each.key
        self.passed += 1
        if not self.meets_recent:
            self.floor = each.key


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
