"""What the commands that keep a store in order do: look at consumers and dead batches, replay, forget, and tell."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.cli import output, tables
from airflow_provider_incremental.cli.acts import act_of, require_consent
from airflow_provider_incremental.cli.naming import find, known, of_asset, readings
from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.upkeep import ConsumerStatus, DeadBatch, JournalEntry
from airflow_provider_incremental.core.watermark import Watermark, WatermarkKey

__all__ = ["consumers", "dead", "forget", "forget_consumer", "journal", "replay"]


def consumers(given: Namespace) -> str:
    """List consumers."""
    url = url_of(given.store)

    async def work() -> list[ConsumerStatus]:
        async with opened(url) as store:
            return await store.consumers(await _selector(store, given.asset_name))

    found = asyncio.run(work())
    if given.output == "json":
        return output.as_json([tables.consumer_json(each) for each in found])
    return (
        tables.consumers_table(found)
        if found
        else "no consumers yet: one is known from its first consume() on, or when a trigger names it"
    )


def dead(given: Namespace) -> str:
    """List dead batches."""
    url = url_of(given.store)

    async def work() -> list[DeadBatch]:
        async with opened(url) as store:
            selector = await _selector(store, given.asset_name)
            known(await store.consumers(selector), given.consumer, given.asset_name or "this store")
            return await store.dead_batches(selector, given.consumer)

    found = asyncio.run(work())
    if given.output == "json":
        return output.as_json([tables.dead_json(each) for each in found])
    return tables.dead_table(found, wide=given.wide) if found else "no dead batches"


def replay(given: Namespace) -> str:
    """Give batches of the log to consumers again."""
    url, act = url_of(given.store), act_of(given)

    async def work() -> tuple[Watermark, dict[str, int], int]:
        async with opened(url) as store:
            watermark = await find(store, given)
            key = watermark.key
            first, last = _range(given, watermark)
            status = await store.consumers(Selector(key.asset_name, key.namespace, key.key))
            named = [each.consumer for each in known(status, given.consumer, str(key))]
            if not named:
                msg = f"nobody consumes {key} yet: there is no consumer to give batches to"
                raise ConfigurationError(msg)
            if not given.dead:
                question = f"batches {first} to {last} of {key} are given again to {', '.join(named)}."
                require_consent(given, question, f"batches of {key} were not replayed")
            only = {"consumer": given.consumer, "dead_only": given.dead, "act": act}
            asked = 0 if given.dead else last - first + 1
            return watermark, await store.replay(key, first, last, **only), asked

    watermark, counts, asked = asyncio.run(work())
    if given.output == "json":
        return output.as_json({"watermark": str(watermark.key), "batches": counts})
    facts: list[tuple[str, Any]] = [("watermark", watermark.key)]
    facts += [(f"to {consumer}", _batches(count)) for consumer, count in counts.items()]
    if any(count < asked for count in counts.values()):
        facts.append(("the others", "wait for the consumer already, or are no longer in the log"))
    return output.pairs(facts)


def journal(given: Namespace) -> str:
    """Show what was changed by hand."""
    url = url_of(given.store)

    async def work() -> list[JournalEntry]:
        async with opened(url) as store:
            if given.watermark is None:
                return await store.journal(limit=given.entries)
            # Of a watermark that is gone as well, so every reading of the text is tried.
            found = [each for key in _keys(given) for each in await store.journal(key, given.entries)]
            if not found:
                await find(store, given)
            return sorted(found, key=lambda each: each.at, reverse=True)[: given.entries]

    found = asyncio.run(work())
    if given.output == "json":
        return output.as_json([tables.entry_json(each) for each in found])
    return tables.journal_table(found, wide=given.wide) if found else "nothing was changed by hand"


def forget(given: Namespace) -> str:
    """Delete a watermark."""
    url, act = url_of(given.store), act_of(given)

    async def work() -> Watermark:
        async with opened(url) as store:
            watermark = await find(store, given)
            key = watermark.key
            status = await store.consumers(Selector(key.asset_name, key.namespace, key.key))
            waiting = [f"{each.pending} wait for {each.consumer}" for each in status if each.pending]
            question = (
                f"watermark {key} is deleted, with its log of batches (the newest is {watermark.last_seq}"
                f"{''.join(f'; {each}' for each in waiting)}). A trigger that still runs begins anew, at its start."
            )
            require_consent(given, question, f"watermark {key} was not deleted")
            await store.forget(key, act)
            return watermark

    watermark = asyncio.run(work())
    if given.output == "json":
        return output.as_json({"forgotten": str(watermark.key)})
    return f"watermark {watermark.key} is deleted"


def forget_consumer(given: Namespace) -> str:
    """Delete a consumer."""
    url, act = url_of(given.store), act_of(given)

    async def work() -> list[WatermarkKey]:
        async with opened(url) as store:
            await of_asset(store, given.asset_name)
            selector = Selector(given.asset_name, given.namespace, given.key)
            status = known(await store.consumers(selector), given.consumer, given.asset_name)
            waiting = sum(each.pending + each.dead for each in status)
            question = (
                f"consumer {given.consumer} of {', '.join(str(each.key) for each in status)} is deleted; "
                f"{_batches(waiting)} that it has not finished will not be kept for it. If it comes back, it is new."
            )
            require_consent(given, question, f"consumer {given.consumer} was not deleted")
            return await store.unsubscribe(selector, given.consumer, act)

    gone = [str(key) for key in asyncio.run(work())]
    if given.output == "json":
        return output.as_json({"consumer": given.consumer, "forgotten_on": gone})
    return f"consumer {given.consumer} is deleted on {', '.join(gone)}"


async def _selector(store: WatermarkStore, asset_name: str | None) -> Selector | None:
    if asset_name is None:
        return None
    await of_asset(store, asset_name)
    return Selector(asset_name)


def _keys(given: Namespace) -> Sequence[WatermarkKey]:
    if given.exact:
        return [WatermarkKey(given.watermark, given.namespace or "default", given.key or "default")]
    return readings(given.watermark)


def _range(given: Namespace, watermark: Watermark) -> tuple[int, int]:
    if not watermark.last_seq:
        msg = f"{watermark.key} has no batches yet: there is nothing to replay"
        raise ConfigurationError(msg)
    first = 1 if given.first is None else given.first
    last = watermark.last_seq if given.last is None else given.last
    if first > watermark.last_seq:
        msg = f"--from {first} is behind the newest batch of {watermark.key}, which is {watermark.last_seq}"
        raise ConfigurationError(msg)
    return first, last


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count} batches"
