"""Odd texts in every field of every operation, on real databases: an answer, never a fault, nothing else touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.watermark import PollReport
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.limits import Limits
from airflow_provider_incremental.web.api.tokens import TokenAuth
from tests.integration.sql_store_stage import KEY, NOTHING, WATCHES
from tests.served import Tokens

RECORDED = json.loads(Path(__file__).parents[1].joinpath("contract", "wire", "0.1.json").read_text())
REQUESTS = {each["request"]["operation"]: each["request"]["arguments"] for each in RECORDED}
ODD = [
    "'; DROP TABLE asset_watermarks; --",
    '" OR 1=1 --',
    "%s %(key)s {0} \\ $1 :name ?",
    "\u202eabc\u2028\U0001f600\ufeff",
    "a\x00b",
    "\ud800",
    "\r\nSet-Cookie: a=b",
    "n" * 1500,
    "x" * 100_000,
    "",
    " ",
    '{"$decimal": "NaN"}',
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the texts of a request are."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, (dict, list)):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, name))


def changed(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """Return a request with another text in one place."""
    result = copy.deepcopy(value)
    place = result
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = text
    return result


@pytest.fixture
async def untouched(database: str) -> Any:
    """A store of each kind of database, with a watermark that nobody means."""
    store = SqlStore(url=database)
    watermark = await store.register(KEY, WATCHES)
    await store.commit(watermark, 1, [NewBatch(low=None, high=1, items=["a"], count=1)], PollReport())
    yield store
    await store.aclose()


@pytest.mark.timeout(280)
async def test_odd_texts_get_an_answer_and_touch_nothing_else(untouched: SqlStore, tmp_path: Path) -> None:
    """Injections, NUL, half characters, line breaks, 1,500 and 100,000 characters: done or refused, never a fault."""
    tokens = Tokens(tmp_path)
    token = tokens.add()
    app = create_app(untouched, TokenAuth(path=tokens.path), limits=Limits(requests_per_second=1e6))
    before = await untouched.load(KEY), await untouched.history(KEY)
    asked = 0
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        for operation, arguments in REQUESTS.items():
            for path in places(arguments):
                for text in ODD:
                    asked += 1
                    body = json.dumps(changed(arguments, path, text))
                    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(asked)}
                    headers["Content-Type"] = "application/json"
                    answer = await client.post(f"/v1/{operation}", content=body, headers=headers)
                    assert answer.status_code in (200, 409, 422), (operation, path, text[:40], answer.text[:300])
    assert asked > 1000
    assert (await untouched.load(KEY), await untouched.history(KEY)) == before
    moved, _ = await untouched.commit(before[0], 2, [], NOTHING)
    assert moved.version == 2
