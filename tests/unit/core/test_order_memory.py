"""What a poll remembers and what it finds gone: committed with the move of the watermark, or not at all."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from airflow_provider_incremental.core.errors import SourceError
from airflow_provider_incremental.core.source import Baseline, Found
from airflow_provider_incremental.core.watermark import Cursor
from airflow_provider_incremental.testing.fakes import ListSource
from tests.miniature import KEY, Deployment


class Knowing(ListSource):
    """Knows the names it has delivered, and says which of them are gone."""

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        known = {name for name, _ in await self.memory.read(prefix="known/", limit=10**6)}
        there = {f"known/{item.name}" for item in self.items}
        found = await super().poll(low, limit, seen)
        gone = sorted(known - there)
        changes = {f"known/{item['name']}": b"" for item in found.items} | dict.fromkeys(gone)
        return Found(
            high=found.high,
            items=found.items,
            more=found.more,
            removed=[{"name": name} for name in gone],
            remember=changes,
        )

    async def latest(self) -> Baseline:
        baseline = await super().latest()
        return Baseline(cursor=baseline.cursor, remember={f"known/{item.name}": b"" for item in self.items})


@pytest.fixture
def knowing(deployment: Deployment) -> Deployment:
    """A deployment whose source remembers names."""
    deployment.source = Knowing()
    return deployment


async def kinds(deployment: Deployment) -> list[tuple[str, list[str]]]:
    """The batches of the log, oldest first: their kind and the names in them."""
    log = await deployment.store.history(KEY, limit=1000)
    return [(batch.kind, [item["name"] for item in batch.items or ()]) for batch in reversed(log)]


async def test_what_is_gone_comes_in_a_batch_of_its_own(knowing: Deployment) -> None:
    """Of one poll, the batch of removed items follows the batch of new ones, and both reach the consumer."""
    knowing.source.add(1, "a")
    knowing.trigger()
    await knowing.run_for(15)
    knowing.source.items.clear()
    knowing.source.add(2, "b")
    await knowing.run_for(15)
    assert await kinds(knowing) == [("added", ["a"]), ("added", ["b"]), ("removed", ["known/a"])]
    await knowing.work()
    assert knowing.processed == ["a", "b", "known/a"]


async def test_only_removals_and_only_memory_are_committed_too(knowing: Deployment) -> None:
    """The cursor stays, the version moves."""
    knowing.source.add(1, "a")
    knowing.trigger()
    await knowing.run_for(15)
    before = await knowing.watermark()
    knowing.source.items.clear()
    await knowing.run_for(30)
    after = await knowing.watermark()
    assert (after.cursor, after.version) == (before.cursor, before.version + 1)
    assert await knowing.store.remembered(KEY, "", "", 10) == []


class Deleting(ListSource):
    """Reports every item as gone, as a table with a column for deleted rows does."""

    async def poll(self, low: Cursor, limit: int, seen: Collection[bytes]) -> Found:
        found = await super().poll(low, limit, seen)
        return Found(high=found.high, removed=found.items, fingerprints=found.fingerprints)


async def test_what_is_gone_inside_the_lateness_window_is_reported_once(deployment: Deployment) -> None:
    """It is read again by every poll, and known by its fingerprint although no batch of new items carries that."""
    deployment.source = Deleting(lateness=10.0)
    deployment.source.add(1, "a")
    deployment.trigger()
    await deployment.run_for(100)
    assert await kinds(deployment) == [("removed", ["a"])]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_crash_at_the_commit_reports_what_is_gone_once(knowing: Deployment, when: str) -> None:
    """Memory and batch are one transaction: after the restart either both are there or none."""
    knowing.source.add(1, "a")
    trigger = knowing.trigger()
    await knowing.run_for(15)
    knowing.source.items.clear()
    trigger.store.die(when, "commit")
    await knowing.run_for(30)
    assert trigger.died
    knowing.trigger()
    await knowing.run_for(60)
    assert await kinds(knowing) == [("added", ["a"]), ("removed", ["known/a"])]


async def test_a_start_at_latest_remembers_its_baseline(knowing: Deployment) -> None:
    """What was there before the start is not delivered, but its removal is known."""
    knowing.source.add(1, "old")
    knowing.trigger(start="latest")
    await knowing.run_for(15)
    knowing.source.items.clear()
    await knowing.run_for(15)
    assert await kinds(knowing) == [("removed", ["known/old"])]


@pytest.mark.parametrize("name", ["", "x" * 251, "ä", "a\n", "\x7f", "a ", " "])
def test_a_name_that_databases_would_sort_each_in_its_own_way_is_refused(name: str) -> None:
    """The message says which, and what a name is."""
    with pytest.raises(SourceError, match="printable ASCII"):
        Found(high=1, remember={name: b""})
    with pytest.raises(SourceError, match="printable ASCII"):
        Baseline(cursor=1, remember={name: b""})
