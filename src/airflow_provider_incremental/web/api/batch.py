"""Many operations in one request: each is a transaction and has a result of its own, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from airflow_provider_incremental.stores.api.forms import require_names
from airflow_provider_incremental.stores.api.scalars import MalformedError, of_kind
from airflow_provider_incremental.web.api.access import Caller
from airflow_provider_incremental.web.api.execution import Executor
from airflow_provider_incremental.web.api.limits import Limits
from airflow_provider_incremental.web.api.problems import ProblemError, described

__all__ = ["ENTRY", "run_batch"]

ENTRY = ("operation", "arguments", "idempotency_key")
"""The fields of an operation in a batch; the last only where the operation changes something."""


async def run_batch(executor: Executor, caller: Caller, body: Any, limits: Limits, size: int) -> str:
    """Return the JSON of the results, in the order of the operations; they may run at the same time.

    :param size: of the body, in bytes.
    :raises MalformedError: when the body is not a batch; then nothing was done.
    """
    entries = _entries(body)
    if len(entries) > limits.operations:
        detail = f"the request has {len(entries)} operations, {limits.operations} are allowed"
        raise ProblemError(413, "too-large", detail, {})
    room = asyncio.Semaphore(limits.at_once)

    async def result(entry: dict[str, Any]) -> str:
        async with room:
            return await _result(executor, caller, entry, size)

    results = await asyncio.gather(*map(result, entries))
    return f'{{"results":[{",".join(results)}]}}'


def _entries(body: Any) -> list[dict[str, Any]]:
    require_names(of_kind(dict, body, "batch"), "batch", ["operations"], ["operations"])
    entries: list[dict[str, Any]] = of_kind(list, body["operations"], "operations")
    for at, entry in enumerate(entries):
        where = f"operations[{at}]"
        require_names(of_kind(dict, entry, where), where, ENTRY[:2], ENTRY)
        if not isinstance(entry["operation"], str) or not isinstance(entry.get("idempotency_key", ""), str):
            msg = f"{where}: operation and idempotency_key are texts"
            raise MalformedError(msg)
    return entries


async def _result(executor: Executor, caller: Caller, entry: dict[str, Any], size: int) -> str:
    try:
        answer = await executor.run(caller, entry["operation"], entry["arguments"], entry.get("idempotency_key"), size)
    except Exception as error:  # each operation fails for itself
        problem = described(error)
        return json.dumps({"status": problem["status"], "problem": problem})
    return f'{{"status":200,"answer":{answer}}}'
