"""In ack mode, which Airflow has from 3.3 on: a batch counts when Airflow has stored its event, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import AssetStateStoreAccessors
from airflow.triggers.shared_stream import AckTimeout, SharedStreamManager

from airflow_provider_incremental.wiring.stores import open_store
from tests.unit.triggers.list_trigger import KEY, ListTrigger, log_of, trigger, until, watermark

pytestmark = pytest.mark.usefixtures("store")


async def subscribed(manager: SharedStreamManager, watcher: ListTrigger) -> AsyncIterator[tuple[Any, int | None]]:
    """Run a trigger in ack mode as Airflow's runner does; yields each payload and the number that confirms it."""
    key = watcher.shared_stream_key()
    stream = manager.subscribe(trigger_id=1, trigger=watcher, key=key)
    try:
        async for event in watcher.filter_shared_stream(stream):
            yield event.payload, manager.bind_pending_event(trigger_id=1, key=key)
    finally:
        await manager.unsubscribe(1, key)
        await watcher.cleanup()


async def test_in_ack_mode_a_batch_counts_when_airflow_has_stored_its_event() -> None:
    """Not before: the event may be on its way, and the process may die."""
    ListTrigger.source.add(1.0, "a")
    manager = SharedStreamManager()
    async with aclosing(subscribed(manager, trigger())) as events:
        payload, seq = await anext(events)
        assert [batch["seq"] for batch in payload["batches"]] == [1]
        following = asyncio.create_task(anext(events))
        async with open_store() as store:
            assert [batch.seq for batch in await store.due(KEY, 3600)] == [1]
            manager.confirm_persisted([seq])

            async def confirmed() -> bool:
                return await store.due(KEY, 3600) == []

            await until(confirmed)
        ListTrigger.source.add(2.0, "b")
        payload, _ = await following
        assert [batch["seq"] for batch in payload["batches"]] == [2]


async def test_in_ack_mode_an_event_that_was_not_stored_comes_again_after_a_restart() -> None:
    """The same batch, under the same id."""
    ListTrigger.source.add(1.0, "a")
    ids = []
    for _ in range(2):
        async with aclosing(subscribed(SharedStreamManager(), trigger())) as events:
            payload, _ = await anext(events)
            ids.append(payload["batches"][0]["id"])
    assert ids[0] == ids[1]
    assert len(await log_of()) == 1


async def test_in_ack_mode_a_confirmation_that_never_comes_leaves_the_batch_due() -> None:
    """Airflow ends the stream after its ack timeout, and starts the trigger again."""
    ListTrigger.source.add(1.0, "a")
    manager = SharedStreamManager(ack_timeout=0.05)
    async with aclosing(subscribed(manager, trigger())) as events:
        await anext(events)
        with pytest.raises(AckTimeout):
            await anext(events)
    async with open_store() as store:
        assert [batch.seq for batch in await store.due(KEY, 3600)] == [1]


async def test_an_asset_of_another_name_shows_in_the_status() -> None:
    """Airflow 3.3 tells a trigger which assets it watches; consumers of those would find nothing."""
    ListTrigger.source.add(1.0, "a")
    watcher = trigger()
    watcher.asset_state_store = AssetStateStoreAccessors(inlets=[Asset("lists")])
    async with aclosing(subscribed(SharedStreamManager(), watcher)) as events:
        await anext(events)
    found = await watermark()
    assert found is not None
    note = "asset_name='list' is not the asset that this trigger is attached to ('lists'): consumers"
    assert note in (found.status.note or "")
    watcher.asset_state_store = AssetStateStoreAccessors(inlets=[Asset("list")])
    async with aclosing(subscribed(SharedStreamManager(), watcher)) as events:
        await anext(events)
