"""Polls a source as a feed does: commits the high edge, remembers fingerprints of the window, survives restarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.core.source import Baseline, Found, Source
from airflow_provider_incremental.sources.s3_source import S3KeySource
from tests.unit.sources.s3_fake import FakeBucket
from tests.unit.sources.s3_memory import FakeMemory


class Watcher:
    """A watermark in memory over one prefix of a fake bucket."""

    def __init__(
        self, bucket: FakeBucket, *, limit: int = 1000, source: type[Source] = S3KeySource, **arguments: Any
    ) -> None:
        self.time = 0.0
        self.cursor: Any = None
        self.items: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.late = 0
        self.memory = FakeMemory()
        self.limit = limit
        self._arguments = {"bucket": "landing", "client": bucket, "monotonic": lambda: self.time, **arguments}
        self._log: list[tuple[Any, Sequence[bytes]]] = []
        self._class: Any = source
        self.restart()

    @property
    def keys(self) -> list[str]:
        """The keys that were delivered, in order."""
        return [item["key"] for item in self.items]

    @property
    def seen(self) -> frozenset[bytes]:
        """Fingerprints of the batches that reach into the window."""
        inside = (marks for high, marks in self._log if self.source.in_window(high, self.cursor))
        return frozenset().union(*inside) if self.source.lateness > 0 else frozenset()

    def restart(self) -> None:
        """Lose everything that is not in the watermark's store."""
        self.source: Any = self._class(**self._arguments)
        self.source.memory = self.memory

    def start(self, baseline: Baseline) -> None:
        """Begin at a baseline."""
        self.cursor = baseline.cursor
        self._log.append((baseline.cursor, baseline.fingerprints))
        self.memory.change(baseline.remember)

    async def poll(self, *, commit: bool = True) -> Found:
        """Poll once, and commit what was found unless the process dies in between."""
        found = await self.source.poll(self.cursor, self.limit, self.seen)
        if commit:
            self.items.extend(found.items)
            self.removed.extend(item["key"] for item in found.removed)
            self.late += found.late_skipped
            self.memory.change(found.remember)
            self.cursor = found.high
            if found.size:
                self._log.append((found.high, found.fingerprints))
        return found
