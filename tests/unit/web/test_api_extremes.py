"""What is far out, and JSON all the same: deep nesting, numbers beyond all, a caller that never pauses, odd paths."""

from __future__ import annotations

import pytest

from airflow_provider_incremental.core.errors import UnsupportedValueError
from airflow_provider_incremental.core.values import decode, dumps, loads
from airflow_provider_incremental.core.watermark import PollReport
from airflow_provider_incremental.stores.api.store import api_store
from tests.unit.web.conftest import KEY

_REWIND = '{"key": {"asset_name": "deep"}, "cursor": %s, "reread": false}'
BODIES = (
    '{"key": %s}',
    '{"key": {"asset_name": %s}}',
    _REWIND,
    '{"operations": %s}',
    '{"operations": [{"operation": "load", "arguments": %s}]}',
    f'{{"operations": [{{"operation": "rewind", "arguments": {_REWIND}, "idempotency_key": "k"}}]}}',
)


def nested(depth, kind):
    """Return JSON that is so deep."""
    return "[" * depth + "]" * depth if kind == "lists" else '{"a":' * depth + "1" + "}" * depth


@pytest.fixture
def token(served):
    """A token for everything."""
    return served.tokens.add()


@pytest.fixture
def limits(limits):
    """Room for many requests."""
    return limits.__class__(request_bytes=400_000, requests_per_second=1e6)


@pytest.mark.parametrize("kind", ["lists", "dictionaries"])
@pytest.mark.parametrize("padding", [0, 110_000])
async def test_no_depth_is_an_error_of_the_server(stranger, token, kind, padding):
    """Whatever one part of the server can still take and another one not; also where a thread of its own reads it."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": "k"}
    for body in BODIES:
        route = "batch" if "operations" in body else "rewind" if "cursor" in body else "load"
        for depth in range(100, 1100, 23):
            text = body % nested(depth, kind) + " " * padding
            answer = await stranger.client.post(f"/v1/{route}", content=text, headers=headers)
            assert answer.status_code in (200, 400, 422), (depth, body, answer.text)
            results = answer.json().get("results", []) if route == "batch" else []
            assert {each["status"] for each in results} <= {200, 422}, (depth, body, answer.text)


@pytest.mark.parametrize("of", [list, tuple, dict])
def test_a_value_that_is_too_deep_is_refused_as_one(of):
    """By what writes and by what reads; never by the interpreter."""
    value = text = 1
    for _ in range(5000):
        value = {"a": value} if of is dict else of([value])
        text = {"a": text} if of is dict else [text]
    for work, deep in ((dumps, value), (decode, text), (loads, nested(100_000, "lists"))):
        with pytest.raises(UnsupportedValueError, match="nested too deeply"):
            work(deep)


async def test_a_client_refuses_what_is_too_deep(served):
    """Before it is sent."""
    value = 1
    for _ in range(5000):
        value = [value]
    client = api_store(served.url)
    with pytest.raises(UnsupportedValueError, match="nested too deeply"):
        await client.rewind(KEY, value, reread=False)
    await client.aclose()


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".5"])
async def test_a_number_that_no_float_holds_is_refused(stranger, token, store, number):
    """It would become infinite, which is another one."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": "k"}
    body = f'{{"key": {{"asset_name": "orders"}}, "cursor": {number}, "reread": false}}'
    answer = await stranger.client.post("/v1/rewind", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed-json")
    assert (await store.load(KEY)).version == 0


@pytest.mark.parametrize("path", ["/v1/load/", "/v1/batch/", "/v1/health/", "/v1/openapi.json/"])
async def test_a_path_that_is_none_leads_nowhere(stranger, path):
    """To no other address that the request itself could name."""
    answer = await stranger.client.post(path, json={}, headers={"Host": "elsewhere.example"})
    assert (answer.status_code, answer.json()["code"], "location" in answer.headers) == (404, "not-found", False)


async def test_a_problem_has_a_length(stranger, token, store):
    """However long what it tells of is: the beginning is enough, and costs what it costs."""
    body = {"key": {"asset_name": "orders"}, "watches": {"source": "secret-" * 20_000, "cursor": "id"}}
    watermark = await store.load(KEY)
    await store.commit(watermark, 1, [], PollReport())
    answer = await stranger.post("register", body, token=token)
    assert (answer.status_code, answer.json()["code"]) == (409, "watches-another-source")
    assert len(answer.json()["detail"]) <= 10_000


async def test_a_long_name_is_not_echoed(stranger, token):
    """Of an operation, or of the form of a value: the answer has its beginning."""
    name = "secret-" * 2000
    value = {"key": {"asset_name": "orders"}, "cursor": {f"${name}": 1}, "reread": False}
    for route, body in (("batch", {"operations": [{"operation": name, "arguments": {}}]}), ("rewind", value)):
        answer = await stranger.post(route, body, token=token)
        assert len(answer.content) < 1000
        assert "secret-secret-" in answer.text
