"""What ``list``, ``show``, ``set`` and ``rewind`` do."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from airflow_provider_incremental.cli import output, positions
from airflow_provider_incremental.cli.naming import find, of_asset
from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.core.batch import Batch
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import Cursor, Watermark

__all__ = ["list_all", "rewind", "set_position", "show"]

_EARLIEST = "earliest"
_MOST_PENDING = 1000


def list_all(given: Namespace) -> str:
    """List watermarks."""
    url = url_of(given.store)

    async def work() -> list[Watermark]:
        async with opened(url) as store:
            return await of_asset(store, given.asset_name)

    watermarks = asyncio.run(work())
    if given.output == "json":
        return output.as_json([output.watermark_json(each) for each in watermarks])
    return (
        output.watermarks_table(watermarks)
        if watermarks
        else "no watermarks yet: a trigger makes its own when it polls"
    )


def show(given: Namespace) -> str:
    """Show one watermark and its last batches."""
    url = url_of(given.store)

    async def work() -> tuple[Watermark, list[Batch], list[Batch] | None]:
        async with opened(url) as store:
            watermark = await find(store, given)
            key = watermark.key
            batches = await store.history(key, limit=given.batches) if given.batches else []
            if given.consumer is None:
                return watermark, batches, None
            only = Selector(key.asset_name, key.namespace, key.key)
            return watermark, batches, await store.pending(only, given.consumer, limit=_MOST_PENDING)

    watermark, batches, pending = asyncio.run(work())
    if given.output == "json":
        return output.as_json(_shown_json(watermark, batches, pending))
    parts = [output.watermark_pairs(watermark)]
    if pending is not None:
        parts.append(f"consumer {given.consumer}: {_backlog(pending)}")
    if batches:
        parts.append(output.batches_table(batches))
    return "\n\n".join(parts)


def set_position(given: Namespace) -> str:
    """Set a watermark to a position, or keep the position and forget what it watches."""
    url = url_of(given.store)

    async def work() -> tuple[Watermark, Watermark]:
        async with opened(url) as store:
            before = await find(store, given)
            if given.value is None and given.json is None:
                return before, await store.rewatch(before.key) or await find(store, given)
            position = _given_position(given, before)
            return before, await store.rewind(before.key, position, reread=False, rewatch=given.rewatch)

    return _moved(given, *asyncio.run(work()))


def rewind(given: Namespace) -> str:
    """Go back to a position and have everything above it delivered again."""
    url = url_of(given.store)

    async def work() -> tuple[Watermark, Watermark]:
        async with opened(url) as store:
            before = await find(store, given)
            position = None if given.to == _EARLIEST else _position(given, given.to, before.cursor)
            if not given.yes:
                _ask(before, position)
            return before, await store.rewind(before.key, position, reread=True, rewatch=given.rewatch)

    return _moved(given, *asyncio.run(work()))


def _given_position(given: Namespace, watermark: Watermark) -> Cursor:
    if given.json is not None:
        return positions.forced(given.json) if given.force else positions.from_json(given.json, watermark.cursor)
    return _position(given, given.value, watermark.cursor)


def _position(given: Namespace, text: str, present: Cursor) -> Cursor:
    return positions.forced(text) if given.force else positions.from_text(text, present)


def _ask(watermark: Watermark, position: Cursor) -> None:
    """Go on only when somebody says so.

    :raises ConfigurationError: when nobody is there to be asked, or the answer is no.
    """
    if not sys.stdin.isatty():
        msg = f"watermark {watermark.key} was not rewound: nobody is here to be asked; repeat it with --yes"
        raise ConfigurationError(msg)
    question = (
        f"watermark {watermark.key} goes from {positions.written(watermark.cursor)} to {positions.written(position)}, "
        "and everything above is delivered again, to every consumer. Go on? [y/N] "
    )
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        msg = f"watermark {watermark.key} was not rewound"
        raise ConfigurationError(msg)


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


def _backlog(pending: Sequence[Batch]) -> str:
    if not pending:
        return "no batch waits for it (or it has never asked for one)"
    count = f"{len(pending)} or more" if len(pending) == _MOST_PENDING else str(len(pending))
    return f"{count} batches wait for it, the oldest is {pending[0].seq}"


def _shown_json(watermark: Watermark, batches: Sequence[Batch], pending: Sequence[Batch] | None) -> dict[str, Any]:
    shown = output.watermark_json(watermark)
    shown["last_batches"] = [output.batch_json(batch) for batch in batches]
    if pending is not None:
        shown["pending"] = [output.batch_json(batch) for batch in pending]
    return shown
