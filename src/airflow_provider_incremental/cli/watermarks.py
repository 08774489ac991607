"""What ``list``, ``show``, ``set`` and ``rewind`` do."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.cli import output, positions, tables
from airflow_provider_incremental.cli.acts import act_of, require_consent
from airflow_provider_incremental.cli.naming import find, known, of_asset
from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.cli.output import Backlog
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.upkeep import ConsumerStatus
from airflow_provider_incremental.core.watermark import Cursor, Watermark
from airflow_provider_incremental.stores.api.address import is_api

__all__ = ["list_all", "rewind", "set_position", "show"]

_EARLIEST = "earliest"
_NO_WAY_BACK = ("latest", "now", "end")
_MOST_PENDING = 1000


def list_all(given: Namespace) -> str:
    """List watermarks."""
    url = url_of(given.store)

    async def work() -> tuple[list[Watermark], list[ConsumerStatus]]:
        async with opened(url) as store:
            found = await of_asset(store, given.asset_name)
            return found, await store.consumers(Selector(given.asset_name) if given.asset_name else None)

    watermarks, consumers = asyncio.run(work())
    backlogs = {each.key: Backlog.of(each.key, consumers) for each in watermarks}
    if given.output == "json":
        return output.as_json([output.watermark_json(each) | backlogs[each.key].json for each in watermarks])
    if not watermarks:
        seen = ", or none that you may see" if is_api(url) else ""
        return f"no watermarks yet{seen}: a trigger makes its own when it polls"
    return output.watermarks_table(watermarks, backlogs, wide=given.wide)


def show(given: Namespace) -> str:
    """Show one watermark, its consumers and its last batches."""
    url = url_of(given.store)

    async def work() -> tuple[Watermark, list[Batch], list[ConsumerStatus], list[Batch] | None]:
        async with opened(url) as store:
            watermark = await find(store, given)
            key = watermark.key
            only = Selector(key.asset_name, key.namespace, key.key)
            batches = await store.history(key, limit=given.batches) if given.batches else []
            consumers = known(await store.consumers(only), given.consumer, str(key))
            if given.consumer is None:
                return watermark, batches, consumers, None
            return watermark, batches, consumers, await store.pending(only, given.consumer, limit=_MOST_PENDING)

    watermark, batches, consumers, pending = asyncio.run(work())
    if given.output == "json":
        return output.as_json(_shown_json(watermark, batches, consumers, pending))
    parts = [output.watermark_pairs(watermark)]
    if consumers:
        parts.append(tables.consumers_table(consumers, of_one=True))
    if pending:
        parts.append(f"the oldest batch that waits for {given.consumer} is {pending[0].seq}")
    if batches:
        parts.append(output.batches_table(batches))
    return "\n\n".join(parts)


def set_position(given: Namespace) -> str:
    """Set a watermark to a position, or keep the position and forget what it watches."""
    url, act = url_of(given.store), act_of(given)

    async def work() -> tuple[Watermark, Watermark]:
        async with opened(url) as store:
            before = await find(store, given)
            if given.value is None and given.json is None:
                return before, await store.rewatch(before.key, act) or await find(store, given)
            position = _given_position(given, before)
            return before, await store.rewind(before.key, position, reread=False, rewatch=given.rewatch, act=act)

    return _moved(given, *asyncio.run(work()))


def rewind(given: Namespace) -> str:
    """Go back to a position and have everything above it delivered again."""
    url, act = url_of(given.store), act_of(given)

    async def work() -> tuple[Watermark, Watermark]:
        async with opened(url) as store:
            before = await find(store, given)
            position = _rewound_position(given, before)
            question = (
                f"watermark {before.key} goes from {positions.written(before.cursor)} to "
                f"{positions.written(position)}, and everything above is delivered again, to every consumer."
            )
            require_consent(given, question, f"watermark {before.key} was not rewound")
            return before, await store.rewind(before.key, position, reread=True, rewatch=given.rewatch, act=act)

    return _moved(given, *asyncio.run(work()))


def _rewound_position(given: Namespace, watermark: Watermark) -> Cursor:
    if given.to in (_EARLIEST, positions.START):
        return None
    if given.to.lower() in _NO_WAY_BACK and not given.force:
        msg = f"--to {given.to} is no way back; give {_EARLIEST}, for the very start of the source, or a position"
        raise ConfigurationError(msg)
    try:
        position = _position(given, given.to, watermark.cursor)
    except ConfigurationError as error:
        msg = f"{error}. For the very start of the source, give --to {_EARLIEST}"
        raise ConfigurationError(msg) from error
    if not given.force and positions.is_ahead(position, watermark.cursor):
        msg = (
            f"--to {given.to} lies ahead of the watermark, which is at {positions.written(watermark.cursor)}: what is "
            "between them would be skipped. Give a position behind it; --force goes there all the same"
        )
        raise ConfigurationError(msg)
    return position


def _given_position(given: Namespace, watermark: Watermark) -> Cursor:
    if given.json is not None:
        return positions.forced(given.json) if given.force else positions.from_json(given.json, watermark.cursor)
    return _position(given, given.value, watermark.cursor)


def _position(given: Namespace, text: str, present: Cursor) -> Cursor:
    return positions.forced(text) if given.force else positions.from_text(text, present)


def _moved(given: Namespace, before: Watermark, after: Watermark) -> str:
    if given.output == "json":
        return output.as_json(output.watermark_json(after))
    facts: list[tuple[str, Any]] = [
        ("watermark", after.key),
        ("before", positions.written(before.cursor)),
        ("now", positions.written(after.cursor)),
        ("version", after.version),
        ("watches", after.watches.source if after.watches else "(the next trigger decides)"),
    ]
    return output.pairs(facts)


def _shown_json(
    watermark: Watermark,
    batches: Sequence[Batch],
    consumers: Sequence[ConsumerStatus],
    pending: Sequence[Batch] | None,
) -> dict[str, Any]:
    shown = output.watermark_json(watermark)
    shown["consumers"] = [tables.consumer_json(each) for each in consumers]
    shown["last_batches"] = [output.batch_json(batch) for batch in batches]
    if pending is not None:
        shown["pending"] = [output.batch_json(batch) for batch in pending]
    return shown
