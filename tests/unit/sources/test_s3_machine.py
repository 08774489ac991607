"""Anything may happen between and during polls: nothing in time is lost, nothing comes twice, removals are exact."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_provider_incremental.sources import (
    s3_known,
    s3_known_blocks,
    s3_removals,
    s3_selection,
    s3_source,
    s3_sweep,
)
from airflow_provider_incremental.sources.s3_key_order import S3KeyOrderSource
from airflow_provider_incremental.sources.s3_pattern import compile_pattern
from tests.unit.sources.s3_fake import client_error
from tests.unit.sources.s3_model import Watched, World

KEYS = ["a", "a.csv", "b.csv", "dir/", "dir/c.csv", "dir/d", "e.csv", "z"]
SECONDS = st.sampled_from([0, 0.3, 1, 4, 40])
PUT = st.tuples(st.sampled_from(KEYS), st.just(0) | st.integers(0, 60), st.sampled_from("12"))
CHANGES = st.lists(PUT | st.sampled_from(KEYS), max_size=3)
PATTERNS = st.sampled_from([None, "*.csv", "**/*.csv"])
SMALL = {
    s3_source: {"_KEPT_OF_A_LISTING": 3},
    s3_selection: {"_SORTED_AT_ONCE": 2},
    s3_sweep: {"_PAGES_A_RANGE": 1},
    s3_removals: {"_KEPT_OF_A_LISTING": 2, "_NOTED_AT_ONCE": 2},
    s3_known: {"_FOLD_FROM_LOGS": 2, "_FOLDED_AT_ONCE": 1, "_BLOCKS_AT_ONCE": 1},
    s3_known_blocks: {"_IN_A_BLOCK": 2, "_NEAR": 1},
}


class Watching(RuleBasedStateMachine):
    """Three watermarks with filters and orders of their own, two processes of each, and a bucket that others change."""

    @initialize(
        page_size=st.integers(1, 4),
        lateness=st.tuples(st.sampled_from([0, 5, 60]), st.sampled_from([5, 60])),
        settle=st.sampled_from([1, 2, 3.5]),
        patterns=st.tuples(PATTERNS, PATTERNS, PATTERNS),
        latest=st.booleans(),
        removals=st.booleans(),
        reread=st.sampled_from([0, 5, 40]),
        changes=CHANGES,
    )
    def begin(self, *, page_size, lateness, settle, patterns, latest, removals, reread, changes):
        self.patches = ExitStack()
        for module, values in SMALL.items():
            self.patches.enter_context(mock.patch.multiple(module, **values))
        self.loop = asyncio.new_event_loop()
        self.world = World(page_size=page_size)
        self.watched = [
            self.watch(patterns[0], lateness=lateness[0], settle=settle, removals=removals),
            self.watch(patterns[1], lateness=lateness[1], settle=1, removals=True),
            self.watch(patterns[2], reread=reread, source=S3KeyOrderSource),
        ]
        self.change(changes, 0)
        self.world.bucket.now += 100
        if latest:
            for each in self.watched:
                self.run(each.start_at_latest())

    def watch(self, pattern, **arguments):
        meant = compile_pattern(pattern).fullmatch if pattern else lambda _: True
        return Watched(self.world, meant, pattern=pattern, **arguments)

    def run(self, work):
        return self.loop.run_until_complete(work)

    @rule(changes=CHANGES, seconds=SECONDS)
    def change(self, changes, seconds):
        """Objects appear, some of them late, and go."""
        for each in changes:
            if isinstance(each, str):
                self.world.delete(each)
            else:
                self.world.put(*each)
        self.world.bucket.now += seconds

    @rule(
        number=st.integers(0, 2),
        feed=st.integers(0, 1),
        limit=st.integers(1, 4),
        commit=st.booleans() | st.just(True),
        fault=st.none() | st.integers(1, 4),
        page=st.integers(1, 4),
        before=st.booleans(),
        changes=CHANGES,
        seconds=SECONDS,
    )
    def poll(self, *, number, feed, limit, commit, fault, page, before, changes, seconds):
        """A poll, in which others write, a page may fail, and whose process may die before the commit."""
        bucket = self.world.bucket
        hooks = bucket.before_page if before else bucket.after_page
        hooks[page] = lambda: self.change(changes, seconds)
        if fault:
            bucket.errors[fault] = client_error("SlowDown", 503)
        try:
            self.run(self.watched[number].poll(feed, limit, commit=commit))
        finally:
            for happening in (bucket.before_page, bucket.after_page, bucket.errors):
                happening.clear()

    @rule(keys=st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), delay=st.integers(1, 60), seconds=SECONDS)
    def overtake(self, *, keys, delay, seconds):
        """An upload in parts ends late, and a smaller key appears after everybody has seen that one."""
        smaller, greater = sorted(keys)
        self.change([(greater, delay, "1")], 0)
        for each in self.watched:
            self.run(each.poll(0, 4))
        self.world.bucket.now += seconds
        self.change([(smaller, 0, "1")], 0)

    @rule(number=st.integers(0, 2))
    def restart(self, number):
        self.watched[number].restart()

    @invariant()
    def nothing_comes_twice(self):
        for each in getattr(self, "watched", ()):
            each.nothing_came_twice()

    def teardown(self):
        """In the end everything was delivered, unless it was there before the start, or reported when it is gone."""
        if not hasattr(self, "watched"):
            return
        try:
            self.world.bucket.now += 100
            for each in self.watched:
                self.run(each.end())
        finally:
            self.loop.close()
            self.patches.close()


Watching.TestCase.settings = settings(
    max_examples=300, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestWatching = Watching.TestCase
