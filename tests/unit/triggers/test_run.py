"""A trigger under Airflow's hands: it never returns and never raises, and a batch counts when its event is stored."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.watermark import Watermark
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.testing.fakes import FakeClock, ListSource
from airflow_provider_incremental.triggers import IncrementalTrigger
from airflow_provider_incremental.wiring.stores import open_store
from tests.unit.triggers.list_trigger import KEY, ListTrigger, log_of, trigger, until, watermark

pytestmark = pytest.mark.usefixtures("store")


async def test_two_triggers_never_share_a_stream() -> None:
    """A shared stream would poll with the arguments of whoever came first."""
    assert trigger().shared_stream_key() != trigger().shared_stream_key()


async def test_without_ack_mode_a_batch_counts_when_the_trigger_still_runs_a_while_later() -> None:
    """``run()`` on Airflow 3.0 to 3.2: the event is due until the trigger has run on for some seconds."""
    ListTrigger.source.add(1.0, "a")
    watcher = trigger(poll_interval=5)
    clock = watcher.clock = FakeClock()
    async with aclosing(watcher.run()) as events:
        payload = (await anext(events)).payload
        following = asyncio.create_task(anext(events))
        assert [batch["seq"] for batch in payload["batches"]] == [1]

        async def announced(seconds: float) -> bool:
            clock.advance(seconds)
            return (await log_of())[0].announced_at is not None

        assert not await announced(4)
        await until(lambda: announced(1))
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    await watcher.cleanup()


async def test_a_failing_source_backs_off_shows_it_and_recovers(caplog: pytest.LogCaptureFixture) -> None:
    """It is neither yielded as an event nor does it end the trigger; the log says it once."""
    ListTrigger.source.errors.extend([OSError("no route to postgresql://me:secret@db")] * 3)
    ListTrigger.source.add(1.0, "a")
    async with aclosing(trigger().run()) as events:
        assert (await anext(events)).payload["count"] == 1
    lines = [record.getMessage() for record in caplog.records if "no route" in record.getMessage()]
    assert len(lines) == 1
    assert "secret" not in lines[0]
    found = await watermark()
    assert found is not None
    assert (found.status.failures, found.status.last_error) == (0, None)
    assert found.status.last_error_at is not None


@pytest.mark.parametrize("stored", [{"poll_interval": -1}, {"asset_name": None}, {"start": {"a": 1}, "max_items": 0}])
async def test_a_trigger_with_a_fault_waits_and_says_so(
    stored: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A row that an older release stored, and that this one refuses, does no harm to the triggerer."""
    watcher = ListTrigger(**{"stored": 1, "asset_name": "list", **stored})
    clock = watcher.clock = FakeClock()
    waiting = asyncio.create_task(anext(watcher.run()))
    await clock.run_for(3600)
    assert not waiting.done()
    assert len([record for record in caplog.records if "opening failed" in record.getMessage()]) == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@pytest.mark.parametrize("setting", ["oracle://me:secret@db/x", "conn:there_is_none"])
async def test_a_store_that_cannot_be_opened_is_said_and_tried_again(
    setting: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line names the setting, and no password; when the setting is mended, the trigger goes on, and says so."""
    caplog.set_level(logging.INFO)
    good = os.environ["AIRFLOW__INCREMENTAL__STORE"]
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", setting)
    ListTrigger.source.add(1.0, "a")
    watcher = trigger(poll_interval=1)
    clock = watcher.clock = FakeClock()
    async with aclosing(watcher.run()) as events:
        following = asyncio.create_task(anext(events))

        async def said() -> bool:
            return any(record.levelno == logging.ERROR for record in caplog.records)

        await until(said)
        assert "secret" not in caplog.text
        monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", good)

        async def delivered() -> bool:
            clock.advance(300)
            return following.done()

        await until(delivered)
        assert (await following).payload["count"] == 1
        assert "opening works again" in caplog.text
    await watcher.cleanup()


async def test_a_store_that_is_not_migrated_is_said_and_used_once_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line names the setting and the command to run."""
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'later.db'}")
    ListTrigger.source.add(1.0, "a")
    watcher = trigger(poll_interval=1)
    clock = watcher.clock = FakeClock()
    async with aclosing(watcher.run()) as events:
        following = asyncio.create_task(anext(events))

        async def said() -> bool:
            return "[incremental] store" in caplog.text and "airflow-incremental db upgrade" in caplog.text

        await until(said)
        await asyncio.to_thread(upgrade_embedded, tmp_path / "later.db")

        async def delivered() -> bool:
            clock.advance(300)
            return following.done()

        await until(delivered)
        assert (await following).payload["count"] == 1
    await watcher.cleanup()


class CountingTrigger(ListTrigger):
    """Extends the poll and the commit, by the names that Airflow's proposal gives them."""

    calls: ClassVar[list[str]] = []

    async def get_high_watermark(self, low: Any, limit: int, seen: Any) -> Any:
        """Note the poll."""
        self.calls.append(f"poll above {low}")
        return await super().get_high_watermark(low, limit, seen)

    async def persist_watermark(self, mark: Watermark, found: Any, report: Any) -> Watermark:
        """Note the commit."""
        self.calls.append(f"commit {found.high}, from {self.low_watermark}")
        return await super().persist_watermark(mark, found, report)


async def test_a_subclass_can_extend_poll_and_commit() -> None:
    """The trigger's own methods are the ones that run."""
    ListTrigger.source.add(1.0, "a")
    watcher = CountingTrigger(asset_name="list", poll_interval=60)
    assert watcher.asset_watermark.asset_name == "list"
    assert watcher.low_watermark is None
    async with aclosing(watcher.run()) as events:
        await anext(events)
    assert watcher.calls == ["poll above None", "commit (1.0, 'a'), from None"]
    await watcher.cleanup()


class SourcelessTrigger(IncrementalTrigger):
    """Forgets to say what it watches."""


def test_a_trigger_that_watches_nothing_is_told_what_to_implement() -> None:
    """In the DAG file already; in the triggerer it is a fault, not an exception."""
    with pytest.raises(ConfigurationError, match=r"SourcelessTrigger does not say.*create_source"):
        SourcelessTrigger(asset_name="list")
    assert "create_source" in (SourcelessTrigger(stored=1, asset_name="list").fault or "")


class _Answering(ListTrigger):
    """Answers what it is told to."""

    answers: ClassVar[dict[str, Any]] = {}

    def create_source(self) -> Any:
        """Return a source, or the answer."""
        answers = self.answers

        class _Source(ListSource):
            async def poll(self, low: Any, limit: int, seen: Any) -> Any:
                return answers["poll"] if "poll" in answers else await super().poll(low, limit, seen)

            async def latest(self) -> Any:
                return answers["latest"] if "latest" in answers else await super().latest()

        if "watches" in answers:
            _Source.watches = answers["watches"]
        return answers["create_source"] if "create_source" in answers else _Source()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"poll": None}, "_Source.poll() returned nothing; return Found(items=[...], high=...)"),
        ({"poll": ["a"]}, "_Source.poll() returned a value of type list; return Found("),
        ({"latest": None}, "_Source.latest() or at() returned nothing; return Baseline(cursor=...)"),
        ({"create_source": None}, "_Answering.create_source() returned nothing; return a Source"),
        ({"watches": "s3://b"}, "_Source.watches is a value of type str; return Watches("),
    ],
)
async def test_an_answer_of_the_wrong_kind_is_named_with_what_to_return(answers: dict[str, Any], said: str) -> None:
    """In the status, whoever gives it: the class, what it returned, what it should."""
    async with open_store() as store:
        await store.register(KEY, ListTrigger.source.watches)
    _Answering.answers = answers
    watcher = _Answering(asset_name="list", poll_interval=0.05, start="latest")
    running = asyncio.create_task(anext(watcher.run()))

    async def shown() -> bool:
        found = await watermark()
        return found is not None and said in (found.status.last_error or "")

    await until(shown)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await watcher.cleanup()


async def test_items_stay_out_of_events_when_asked() -> None:
    """Airflow logs and stores events: with items_in_events=False they name batches and hold no item."""
    ListTrigger.source.add(1.0, "secret")
    for asked, expected in ((False, False), (True, True)):
        watcher = trigger(namespace=str(asked), items_in_events=asked)
        async with aclosing(watcher.run()) as events:
            payload = (await anext(events)).payload
        await watcher.cleanup()
        assert ("secret" in json.dumps(payload["batches"][0].get("items"))) is expected
        assert payload["count"] == 1


def test_bad_configuration_is_an_error_of_this_package() -> None:
    """One root to catch."""
    with pytest.raises(ConfigurationError):
        ListTrigger(asset_name="list", max_items=0)
