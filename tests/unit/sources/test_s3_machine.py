"""Anything may happen between and during polls: nothing inside the lateness window is lost, nothing comes twice."""

from __future__ import annotations

import asyncio
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider_incremental.sources import s3_selection, s3_source, s3_sweep
from airflow_provider_incremental.sources.s3_errors import S3ListingError
from airflow_provider_incremental.sources.s3_pattern import compile_pattern
from tests.unit.sources.s3_fake import FakeBucket, client_error
from tests.unit.sources.s3_watcher import Watcher

KEYS = ["a", "a.csv", "b.csv", "dir/", "dir/c.csv", "dir/d", "e.csv", "z"]
WRITES = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 60), st.sampled_from("12")), max_size=3)


class Watching(RuleBasedStateMachine):
    """One watermark, two feeds of it, and a bucket that others write to."""

    @initialize(
        page_size=st.integers(1, 4),
        lateness=st.sampled_from([0, 5, 60]),
        settle=st.sampled_from([1, 2, 3.5]),
        pattern=st.sampled_from([None, "*.csv", "**/*.csv"]),
        latest=st.booleans(),
        writes=WRITES,
    )
    def begin(self, *, page_size, lateness, settle, pattern, latest, writes):
        self.patches = [
            mock.patch.object(s3_source, "_KEPT_OF_A_LISTING", 3),
            mock.patch.object(s3_selection, "_SORTED_AT_ONCE", 2),
            mock.patch.object(s3_sweep, "_PAGES_A_RANGE", 1),
        ]
        for patch in self.patches:
            patch.start()
        self.loop = asyncio.new_event_loop()
        self.bucket = FakeBucket(page_size=page_size)
        self.lateness = lateness
        self.pattern = compile_pattern(pattern) if pattern else None
        arguments = {"lateness": lateness, "settle": settle, "pattern": pattern, "monotonic": lambda: self.bucket.now}
        self.watcher = Watcher(self.bucket, **arguments)
        self.sources = [self.watcher.source, Watcher(self.bucket, **arguments).source]
        self.write(writes, 0)
        self.bucket.now += 100
        self.before_start = set()
        if latest:
            self.watcher.start(self.loop.run_until_complete(self.watcher.source.latest()))
            self.before_start = self.present()

    @rule(writes=WRITES, seconds=st.sampled_from([0, 0.3, 1, 4, 40]))
    def write(self, writes, seconds):
        """Objects appear; those that are late began as long ago as the window allows at most."""
        for key, delay, body in writes:
            size = 0 if key.endswith("/") else 1
            self.bucket.put(key, modified=int(self.bucket.now) - min(delay, self.lateness), body=body, size=size)
        self.bucket.now += seconds

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key):
        if any(key == name for name, *_ in self.bucket.versions()):
            self.bucket.delete(key)

    @rule(
        feed=st.integers(0, 1),
        limit=st.integers(1, 4),
        commit=st.booleans() | st.just(True),
        fault=st.none() | st.integers(1, 4),
        page=st.integers(1, 4),
        before=st.booleans(),
        writes=WRITES,
        seconds=st.sampled_from([0, 0.3, 1, 4, 40]),
    )
    def poll(self, *, feed, limit, commit, fault, page, before, writes, seconds):
        """A poll, in which others write, a page may fail, and whose process may die before the commit."""
        hooks = self.bucket.before_page if before else self.bucket.after_page
        hooks[page] = lambda: self.write(writes, seconds)
        if fault:
            self.bucket.errors[fault] = client_error("SlowDown", 503)
        try:
            self.poll_once(feed, limit, commit)
        finally:
            for happening in (self.bucket.before_page, self.bucket.after_page, self.bucket.errors):
                happening.clear()

    @rule()
    def restart(self):
        for index in (0, 1):
            self.watcher.restart()
            self.sources[index] = self.watcher.source

    def poll_once(self, feed, limit, commit=True):
        self.watcher.source, self.watcher.limit = self.sources[feed], limit
        low = self.watcher.cursor
        try:
            found = self.loop.run_until_complete(self.watcher.poll(commit=commit))
        except S3ListingError:
            assert self.watcher.cursor == low
            return True
        assert found.size <= limit
        assert low is None or (found.high is not None and found.high >= low)
        order = [(item["last_modified"], item["key"]) for item in found.items]
        assert order == sorted(order)
        return found.more

    def present(self):
        return {
            version
            for version in self.bucket.versions()
            if not version[0].endswith("/") and (self.pattern is None or self.pattern.fullmatch(version[0]))
        }

    def delivered(self):
        return [(item["key"], item["last_modified"], item["etag"]) for item in self.watcher.items]

    @invariant()
    def nothing_comes_twice(self):
        if hasattr(self, "watcher"):
            assert len(self.delivered()) == len(set(self.delivered()))

    def teardown(self):
        """In the end everything that is there was delivered, unless it was there before the start."""
        if not hasattr(self, "watcher"):
            return
        try:
            self.bucket.now += 100
            polls = 0
            while self.poll_once(0, 2):
                polls += 1
                assert polls < 100
            self.nothing_comes_twice()
            assert self.present() - self.before_start <= set(self.delivered())
        finally:
            self.loop.close()
            for patch in self.patches:
                patch.stop()


Watching.TestCase.settings = settings(
    max_examples=300, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestWatching = Watching.TestCase
