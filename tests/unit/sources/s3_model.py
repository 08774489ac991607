"""What a watcher must and may deliver, by what happened to a bucket: the other side of the state machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_known import KnownKeys
from airflow_provider_incremental.sources.s3_pages import key_order
from airflow_provider_incremental.sources.s3_sweep import Range
from tests.unit.sources.s3_fake import FakeBucket
from tests.unit.sources.s3_watcher import Watcher

Version = tuple[str, object, str]


@dataclass(frozen=True)
class Put:
    """An object that appeared: as the how manieth, when, and how long before that its upload in parts began."""

    key: str
    number: int
    appeared: float
    delay: int


class World:
    """A bucket, and what happened to it so far."""

    def __init__(self, *, page_size: int) -> None:
        self.bucket = FakeBucket(page_size=page_size)
        self.puts: dict[Version, Put] = {}
        self.firsts: dict[str, Put] = {}
        self.deleted: list[str] = []
        self.count = 0

    def put(self, key: str, delay: int, body: str) -> None:
        """Write an object; one with a delay is an upload in parts, dated when it began."""
        bucket = self.bucket
        modified = int(bucket.now) - delay
        size = 0 if key.endswith("/") else 1
        bucket.put(key, modified=modified, body=body, size=size, parts=2 if delay else 0)
        version = next(each for each in bucket.versions() if each[0] == key)
        self.count += 1
        self.puts[version] = Put(key, self.count, bucket.now, delay)
        self.firsts.setdefault(key, self.puts[version])

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        if key in self.present_keys():
            self.bucket.delete(key)
            self.deleted.append(key)

    def present_keys(self) -> set[str]:
        """The keys that are there."""
        return {key for key, *_ in self.bucket.versions()}


class Watched:
    """One watermark with two processes, and the books about it.

    :param meant: whether a key is one that the filter means.
    """

    def __init__(self, world: World, meant: Callable[[str], bool], *, removals: bool = False, **arguments) -> None:
        self.world = world
        self.meant = meant
        self.removals = removals
        self.watcher = Watcher(world.bucket, monotonic=lambda: world.bucket.now, **arguments)
        if removals:
            self.watcher._arguments["removals"] = True
        self.sources = []
        self.restart()
        self.before_start: set[Version] = set()
        self.known: set[str] = set()
        self.gone: set[str] = set()
        self.looked_at = 0

    def restart(self) -> None:
        """Both processes begin anew."""
        self.sources = []
        for _ in range(2):
            self.watcher.restart()
            self.sources.append(self.watcher.source)

    def present(self) -> set[Version]:
        """The versions that are there and meant."""
        return {
            version
            for version in self.world.bucket.versions()
            if not version[0].endswith("/") and self.meant(version[0])
        }

    def due(self, version: Version) -> bool:
        """Whether a version has to be delivered, however late it appeared."""
        put = self.world.puts[version]
        source = self.watcher.source
        if source.watches.cursor == "last_modified,key":
            return put.delay <= source.lateness
        # In the order of keys: unless a key that is not smaller appeared before, longer ago than the window.
        before = [first for first in self.world.firsts.values() if first.number < put.number]
        not_smaller = [first for first in before if key_order(first.key) >= key_order(put.key)]
        return not any(source.lateness == 0 or first.appeared < put.appeared - source.lateness for first in not_smaller)

    def delivered(self) -> list[Version]:
        """What was delivered."""
        return [(item["key"], item["last_modified"], item["etag"]) for item in self.watcher.items]

    async def start_at_latest(self) -> None:
        """Begin behind what is there."""
        self.watcher.start(await self.watcher.source.latest())
        self.before_start = self.present()

    async def poll(self, feed: int, limit: int, *, commit: bool = True) -> bool:
        """Poll, check what was found, and keep the books; whether there is more."""
        watcher = self.watcher
        watcher.source, watcher.limit = self.sources[feed], limit
        low, there = watcher.cursor, self.world.present_keys()
        self._miss_what_was_deleted()
        try:
            found = await watcher.poll(commit=commit)
        except S3ListingError:
            assert watcher.cursor == low
            return True
        assert max(found.size, len(found.removed)) <= limit
        self._check_order(low, found.high, [(item["last_modified"], item["key"]) for item in found.items])
        if commit and self.removals:
            await self._keep_books([item["key"] for item in found.items], [item["key"] for item in found.removed])
            if found.remember and not found.size and not found.removed and found.more:
                await self._note(there)
        return found.more

    def _check_order(self, low, high, order: list[tuple[object, str]]) -> None:
        if self.watcher.source.watches.cursor == "last_modified,key":
            assert low is None or (high is not None and high >= low)
            assert order == sorted(order)
        else:
            assert low is None or key_order(high[0]) >= key_order(low[0])
            assert [key for _, key in order] == sorted((key for _, key in order), key=key_order)

    def _miss_what_was_deleted(self) -> None:
        for key in self.world.deleted[self.looked_at :]:
            if key in self.known:
                self.gone.add(key)
        self.looked_at = len(self.world.deleted)

    async def _keep_books(self, added: list[str], removed: list[str]) -> None:
        meanwhile = set(self.world.deleted[self.looked_at :])
        self._miss_what_was_deleted()
        for key in removed:
            assert key in self.known, f"{key} was not known"
            assert key in self.gone, f"{key} was there all the time"
            self.known.discard(key)
            self.gone.discard(key)
        for key in added:
            self.known.add(key)
            if key not in self.world.present_keys() or key in meanwhile:
                self.gone.add(key)

    async def _note(self, there: set[str]) -> None:
        """After a poll that noted what is there: that, and nothing else, is known besides."""
        keys = KnownKeys(prefix="")
        await keys.open(self.watcher.memory, self.watcher.cursor)
        known = {keys.absolute(key) async for chunk in keys.between(Range("")) for key in chunk}
        may_be = {version[0] for version in self.before_start} | {version[0] for version in self.delivered()}
        may_be |= {version[0] for version in self.world.puts if not self.due(version)}
        assert self.known <= known <= self.known | (may_be & (there | self.world.present_keys()))
        if keys.noted_to is None:
            kept = {version[0] for version in self.before_start & self.present()}
            assert kept & there <= known
        self.gone |= {key for key in known - self.known if key not in self.world.present_keys()}
        self.known = known

    async def end(self) -> None:
        """In the end everything that is there was delivered, and everything that is gone was reported."""
        polls = 0
        while await self.poll(0, 2):
            polls += 1
            assert polls < 200
        self.nothing_came_twice()
        assert {version for version in self.present() - self.before_start if self.due(version)} <= set(self.delivered())
        assert self.known <= self.world.present_keys()

    def nothing_came_twice(self) -> None:
        """Each version was delivered once."""
        assert len(self.delivered()) == len(set(self.delivered()))
