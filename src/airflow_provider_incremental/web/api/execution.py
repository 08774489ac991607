"""Runs an operation for a caller: arguments read, permission checked, done once, answer written, noted in the log."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from airflow_provider_incremental.core.batch import Batch, Claim, SeenBatch
from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.core.redact import one_line
from airflow_provider_incremental.core.snapshot import Snapshot
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.operations import OPERATIONS, Operation
from airflow_provider_incremental.stores.api.scalars import shown
from airflow_provider_incremental.stores.once import DoesOnce
from airflow_provider_incremental.web.api.access import Caller, only_visible, permitted, subject_of
from airflow_provider_incremental.web.api.problems import ProblemError

__all__ = ["Executor", "ServedStore"]

T = TypeVar("T")

log = logging.getLogger(__name__)

_BIG = 100_000
_CLAIM = "claim"
_WIDER = 10
_MOST_LOOKED_AT = 1_000_000
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class ServedStore(WatermarkStore, DoesOnce, Protocol):
    """A store that can be served: a request that is repeated has its effect once."""


class Executor:
    """Runs operations of a store.

    :param store: where they run.
    """

    def __init__(self, *, store: ServedStore) -> None:
        self._store = store

    async def run(self, caller: Caller, name: str, given: Any, key: str | None, size: int) -> str:
        """Return the JSON of an operation's answer.

        :param given: the JSON of its arguments.
        :param key: the caller's idempotency key.
        :param size: about how many bytes the arguments have.
        :raises IncrementalError: as the operation does.
        :raises ProblemError: when there is no such operation, or its key is missing.
        """
        operation = OPERATIONS.get(name)
        if operation is None:
            detail = f"this server has no operation {shown(name)}: it is older than the client; upgrade it first"
            raise ProblemError(404, "unknown-operation", detail)
        arguments = permitted(caller, operation, await _apart(operation.decode, given, big=size > _BIG))
        if not operation.mutates:
            return await self._answer(caller, operation, arguments)
        required, outcome = _required(key), "failed"
        try:
            if operation.repeatable:
                answer = await self._answer(caller, operation, arguments)
            else:
                done_once = await _apart(_once_key, caller, name, required, given, big=size > _BIG)
                answer = await self._done(caller, operation, arguments, done_once)
            outcome = "done"
        except IncrementalError as error:
            outcome = f"refused: {type(error).__name__}"
            raise
        finally:
            about = one_line(subject_of(arguments))
            log.info("operation=%s caller=%s about=%s outcome=%s", name, one_line(caller.name), about, outcome)
        return answer

    async def _done(self, caller: Caller, operation: Operation, arguments: dict[str, Any], key: str) -> str:
        whole: dict[str, str] = {}

        async def work() -> str:
            answer = await self._visible(caller, operation, arguments)
            written = await _text(operation, answer)
            if not _is_big_claim(answer):
                return written
            lean = await _text(operation, _without_items(answer))
            whole[lean] = written
            return lean

        remembered = await self._store.once(key, work)
        if operation.name != _CLAIM:
            return remembered
        return whole.get(remembered) or await self._with_items(operation, remembered)

    async def _with_items(self, operation: Operation, remembered: str) -> str:
        """Return the answer to a claim that was made before: the log has the items that the memory left out."""
        claim: Claim | None = operation.answer.decode(json.loads(remembered), "answer")
        if claim is None or claim.batch.items is not None:
            return remembered
        logged = await self._store.history(claim.batch.key, claim.batch.seq + 1, 1)
        items = next((each.items for each in logged if each.id == claim.batch.id), None)
        return await _text(operation, replace(claim, batch=replace(claim.batch, items=items)))

    async def _answer(self, caller: Caller, operation: Operation, arguments: dict[str, Any]) -> str:
        return await _text(operation, await self._visible(caller, operation, arguments))

    async def _visible(self, caller: Caller, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Run an operation; of a list with a limit, return so much of what the caller may see."""
        work = getattr(self._store, operation.name)
        answer = await work(**arguments)
        visible = only_visible(caller, answer)
        if visible is answer or "limit" not in operation.signature.parameters:
            return visible
        wanted = limit = arguments.get("limit", operation.signature.parameters["limit"].default)
        while len(visible) < wanted and len(answer) == limit < _MOST_LOOKED_AT:
            limit = min(_WIDER * limit, _MOST_LOOKED_AT)
            answer = await work(**arguments | {"limit": limit})
            visible = only_visible(caller, answer)
        return visible[:wanted]


def _is_big_claim(answer: Any) -> bool:
    """Whether an answer is better remembered without its items, which are in the log anyway."""
    return isinstance(answer, Claim) and _weight(answer) > _BIG


def _without_items(claim: Claim) -> Claim:
    return replace(claim, batch=replace(claim.batch, items=None))


async def _text(operation: Operation, answer: Any) -> str:
    return await _apart(_written, operation, answer, big=_weight(answer) > _BIG)


def _required(key: str | None) -> str:
    if key is None or not _KEY.fullmatch(key):
        detail = (
            "every operation that changes something needs an idempotency key of its own, of 1 to 255 visible ASCII "
            "characters; send the same one when the request is repeated"
        )
        raise ProblemError(400, "idempotency-key", detail)
    return key


def _once_key(caller: Caller, name: str, key: str, given: Any) -> str:
    """The same request of the same caller: another one with the same key is another one."""
    text = json.dumps([caller.name, name, key, given], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _written(operation: Operation, answer: Any) -> str:
    return json.dumps(operation.answer.encode(answer), allow_nan=False, separators=(",", ":"))


def _weight(answer: Any) -> int:
    """About how many bytes of an answer may make its JSON big."""
    if isinstance(answer, Batch):
        return answer.items_bytes if answer.items is not None else 0
    if isinstance(answer, Claim):
        return _weight(answer.batch)
    if isinstance(answer, Snapshot):
        return answer.weight
    if isinstance(answer, SeenBatch):
        return 16 * len(answer.fingerprints)
    return sum(map(_weight, answer)) if isinstance(answer, Sequence) and not isinstance(answer, str) else 0


async def _apart(work: Callable[..., T], *arguments: Any, big: bool) -> T:
    return await asyncio.to_thread(work, *arguments) if big else work(*arguments)
