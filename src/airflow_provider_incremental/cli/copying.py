"""What ``airflow-incremental copy`` does: copies watermarks from store to store, and says what became of each."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from airflow_provider_incremental.cli.acts import act_of
from airflow_provider_incremental.cli.opening import opened, url_of
from airflow_provider_incremental.cli.output import as_json, table
from airflow_provider_incremental.cli.positions import written
from airflow_provider_incremental.core.copying import Contents, Outcome, copy, signs_of_life, to_copy
from airflow_provider_incremental.core.errors import (
    ConfigurationError,
    StoreError,
    StoreNotMigratedError,
    StoreUnavailableError,
)
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.core.watermark import Watermark
from airflow_provider_incremental.stores.api.address import is_api

__all__ = ["run"]

_EVERY = 2.0
_MOST_SIGNS = 10
_REMEDIES = {
    "differs": (
        "What differs was left alone: it has moved on there, or is from an earlier copy. To copy it again, delete it "
        "there first: airflow-incremental forget WATERMARK --store STORE"
    ),
    "changed meanwhile": (
        "What changed meanwhile is copied, but not as it is here now: stop its triggers and tasks, delete it there "
        "(airflow-incremental forget WATERMARK --store STORE) and copy again"
    ),
}
_SWITCH = "Set [incremental] store to the new store for every process before you start triggers and tasks again."
_STAY = "Do not set [incremental] store to the new store before all of them are there."


def run(given: Namespace) -> tuple[str, int]:
    """Copy watermarks, and return what became of each; 1 when one is not there as it is here."""
    outcomes = asyncio.run(_copied(given))
    status = 0 if all(each.good for each in outcomes) else 1
    if given.output == "json":
        return as_json([_json(each) for each in outcomes]), status
    if not outcomes:
        return "there are no watermarks to copy", status
    counts = Counter(each.result for each in outcomes)
    summary = ", ".join(f"{count} {result}" for result, count in counts.items())
    advice = [f"{each.key}: {each.reason}" for each in outcomes if each.reason]
    advice += [_REMEDIES[result] for result in counts if result in _REMEDIES]
    if "copied" in counts:
        advice.append(_SWITCH if not status else _STAY)
    return "\n".join([_table(outcomes, wide=given.wide), "", f"{summary}.", *advice]), status


async def _copied(given: Namespace) -> list[Outcome]:
    urls = [_kept(url_of(each)) for each in (given.source, given.target)]
    act = None if given.dry_run else act_of(given)
    async with opened(urls[0]) as source, opened(urls[1]) as target:
        if await source.identity() == await target.identity():
            msg = "--from and --to lead to the same store; there is nothing to copy"
            raise ConfigurationError(msg)
        if is_api(urls[0]):
            _say("from an API, what its token may see is copied, and nothing else")
        watermarks = await to_copy(source)
        if given.dry_run:
            signs = await _signs(source, watermarks)
            if signs:
                _say(f"the real copy would refuse, since the store is in use:{_listed(signs)}")
        elif not given.force:
            await _require_quiet(source, watermarks)
        outcomes = []
        for number, each in enumerate(watermarks, 1):
            told = _progress(f"{number}/{len(watermarks)} {each.key}")
            try:
                outcomes.append(await copy(source, target, each.key, act, dry_run=given.dry_run, told=told))
            except (asyncio.CancelledError, StoreUnavailableError, StoreNotMigratedError):
                _say(f"interrupted after {number - 1} of {len(watermarks)} watermarks; repeat this to go on from there")
                raise
            except StoreError as error:
                outcomes.append(Outcome(key=each.key, result="failed", reason=str(error)))
        return outcomes


def _kept(url: str) -> str:
    if url.lower().startswith("memory:"):
        msg = "a store in memory ends with its process: there is nothing to copy from it, and nothing would stay in it"
        raise ConfigurationError(msg)
    return url


async def _signs(source: WatermarkStore, watermarks: Sequence[Watermark]) -> list[str]:
    """Return what shows that somebody still works on a store."""
    now = dt.datetime.now(dt.UTC)
    signs: list[str] = []
    for each in watermarks:
        try:
            signs += [f"{each.key}: {sign}" for sign in await signs_of_life(source, each, now)]
        except (StoreUnavailableError, StoreNotMigratedError):
            raise  # it would be the same for all
        except StoreError:
            continue  # what cannot be read is not copied
    return signs


def _listed(signs: Sequence[str]) -> str:
    more = f"\n  and {len(signs) - _MOST_SIGNS} more" if len(signs) > _MOST_SIGNS else ""
    return "".join(f"\n  {each}" for each in signs[:_MOST_SIGNS]) + more


async def _require_quiet(source: WatermarkStore, watermarks: Sequence[Watermark]) -> None:
    """Refuse to copy what somebody still works on.

    :raises ConfigurationError: naming the watermarks, and what to stop.
    """
    signs = await _signs(source, watermarks)
    if signs:
        msg = (
            f"the store that is copied seems to be in use; nothing was copied:{_listed(signs)}\n"
            "What triggers and tasks do while it is copied would stay behind. Stop the triggerers, and pause the DAGs "
            "that consume until their tasks have ended; then repeat this, with --force if you know that all is stopped"
        )
        raise ConfigurationError(msg)


def _progress(what: str) -> Callable[[Contents], None]:
    """Return what tells how far a copy is, now and then."""
    last = time.monotonic()

    def told(contents: Contents) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            _say(f"{what}: {contents.counts['batches']} of its batches copied")

    return told


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _table(outcomes: Sequence[Outcome], *, wide: bool) -> str:
    heads = ("WATERMARK", "RESULT", "POSITION", "VERSION", "BATCHES", "CONSUMERS", "CLAIMS", "MEMORY", "THERE")
    return table(heads, (_row(each) for each in outcomes), wide=wide)


def _row(outcome: Outcome) -> Sequence[object]:
    mine, theirs = outcome.source, outcome.target
    there = "-" if theirs is None else "the same" if mine == theirs else _briefly(theirs)
    facts = [None] * 6 if mine is None else [written(mine.watermark.cursor), mine.watermark.version, *_counts(mine)]
    return (outcome.key, outcome.result, *facts, there)


def _counts(contents: Contents) -> list[int]:
    counts = contents.counts
    return [counts["batches"], counts["consumers"], counts["work"], counts["pieces"]]


def _briefly(contents: Contents) -> str:
    counts = "/".join(map(str, _counts(contents)))
    return f"version {contents.watermark.version}, {counts}, at {written(contents.watermark.cursor)}"


def _json(outcome: Outcome) -> dict[str, Any]:
    return {
        "watermark": str(outcome.key),
        "result": outcome.result,
        "reason": outcome.reason,
        "source": _contents_json(outcome.source),
        "target": _contents_json(outcome.target),
    }


def _contents_json(contents: Contents | None) -> dict[str, Any] | None:
    if contents is None:
        return None
    names = ("batches", "consumers", "claims", "memory")
    counts = dict(zip(names, _counts(contents), strict=True))
    digest = f"{contents.digest:064x}"
    return {
        "position": written(contents.watermark.cursor),
        "version": contents.watermark.version,
        **counts,
        "digest": digest,
    }
