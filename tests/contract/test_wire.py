"""What clients of this minor release send and understand is still served, and what its server answers is still read.

``wire/0.1.json`` was written by this release, once: requests of every operation and their answers. What can neither
serve nor read them any more needs another version in its paths.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_incremental.stores.api.operations import OPERATIONS
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.testing.fakes import FakeClock
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.tokens import TokenAuth
from tests.served import Tokens

RECORDED = json.loads(Path(__file__).with_name("wire").joinpath("0.1.json").read_text())


def covers(new: Any, old: Any) -> bool:
    """Whether an answer says all that an older one said; it may say more."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and covers(new[name], old[name]) for name in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(new) == len(old) and all(map(covers, new, old))
    return bool(new == old)


async def test_requests_of_this_minor_release_are_answered_as_they_were(tmp_path: Path) -> None:
    """In the order in which they were sent, on a store with the same clock."""
    tokens, clock = Tokens(tmp_path), FakeClock()
    token = tokens.add("recorded", vouches=True)
    app = create_app(MemoryStore(clock=clock, identity="recorded"), TokenAuth(path=tokens.path))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for exchange in RECORDED:
            body = {"operations": [exchange["request"]]}
            answer = await client.post("/v1/batch", json=body, headers={"Authorization": f"Bearer {token}"})
            [result] = answer.json()["results"]
            assert covers(result, exchange["result"]), (exchange, result)


def test_no_operation_has_gone() -> None:
    """One that is there for a minor release is there in the next."""
    assert len(RECORDED) > 30
    assert {exchange["request"]["operation"] for exchange in RECORDED} <= set(OPERATIONS)


@pytest.mark.parametrize("exchange", RECORDED, ids=lambda exchange: exchange["request"]["operation"])
def test_answers_of_this_minor_release_are_read(exchange: dict[str, Any]) -> None:
    """Also with fields that a later release may add."""
    operation, result = OPERATIONS[exchange["request"]["operation"]], exchange["result"]
    if result["status"] == 200:
        read = operation.answer.decode(result["answer"], "answer")
        assert covers(json.loads(json.dumps(operation.answer.encode(read))), result["answer"])
        if isinstance(result["answer"], dict) and "version" in result["answer"]:
            assert operation.answer.decode(result["answer"] | {"later": 1}, "answer") == read
