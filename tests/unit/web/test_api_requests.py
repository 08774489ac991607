"""What the API makes of requests: problems for what it cannot take, one effect for what is repeated."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.stores.sql.failures import DatabaseFailedError
from tests.served import serving
from tests.unit.web.conftest import KEY
from tests.unit.web.test_api_access import COMMIT, FORGET


@pytest.fixture
def token(served):
    """A token for everything."""
    return served.tokens.add("test")


async def test_a_repeated_request_is_answered_and_not_done_again(stranger, token, store):
    """The same key and body: the same answer, and one commit."""
    first, again = [await stranger.post("commit", COMMIT, token=token, key="once") for _ in range(2)]
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    assert first.json()[0]["version"] == 1
    assert len(await store.history(KEY)) == 1


async def test_repeats_at_once_are_done_once(stranger, token, store):
    """Also when the first is not answered yet."""
    answers = await asyncio.gather(*[stranger.post("commit", COMMIT, token=token, key="once") for _ in range(5)])
    assert {answer.status_code for answer in answers} == {200}
    assert len(await store.history(KEY)) == 1


@pytest.mark.parametrize("length", [10, 200_000])
async def test_a_repeated_claim_has_its_items_which_are_kept_once(stranger, token, store, monkeypatch, length):
    """The log has big items already: what is remembered of the claim leaves them out."""
    batch = NewBatch(low=None, high=1, items=["x" * length], count=1)
    await store.commit(await store.load(KEY), 1, [batch], PollReport())
    await store.subscribe(Selector("orders"), "load", "earliest")
    remembered, once = [], store.once

    async def noting(key, work):
        remembered.append(await once(key, work))
        return remembered[-1]

    monkeypatch.setattr(store, "once", noting)
    body = {"selector": {"asset_name": "orders"}, "consumer": "load", "holder": "me", "lease": 60}
    first, again = [await stranger.post("claim", body, token=token, key="once") for _ in range(2)]
    assert first.json() == again.json()
    assert first.json()["batch"]["items"] == ["x" * length]
    assert max(map(len, remembered)) < 1000


async def test_a_key_belongs_to_its_caller_and_its_request(served, stranger, token):
    """Another caller, or another request, with the same key is not answered with what was done for this one."""
    await stranger.post("commit", COMMIT, token=token, key="1")
    other = await stranger.post("commit", COMMIT, token=served.tokens.add("other"), key="1")
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    changed = await stranger.post("commit", COMMIT | {"high": 8}, token=token, key="1")
    assert changed.status_code == 409


@pytest.mark.parametrize("key", [None, "", "a b", "x" * 256, "Ã¤"])
async def test_a_change_without_a_good_key_is_refused(stranger, token, store, key):
    """A client that repeats it could do it twice."""
    headers = {"Authorization": f"Bearer {token}"} | ({} if key is None else {"Idempotency-Key": key})
    answer = await stranger.client.post("/v1/forget", json=FORGET, headers={k: v.encode() for k, v in headers.items()})
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency-key")
    assert await store.load(KEY) is not None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed-json"),
        (b"{", 400, "malformed-json"),
        (b"\xff", 400, "malformed-json"),
        (b'{"key": NaN}', 400, "malformed-json"),
        (b"[" * 10_000, 400, "malformed-json"),
        (b"1" * 5000, 400, "malformed-json"),
        (b"[]", 422, "unsupported-value"),
        (b"null", 422, "unsupported-value"),
        (b"{}", 422, "unsupported-value"),
        (b'{"key": {}}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": ""}}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": "a\\u0000b"}}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": "\\ud800"}}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": "orders", "colour": "red"}}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": "orders"}, "more": 1}', 422, "unsupported-value"),
        (b'{"key": {"asset_name": "' + b"a" * 1501 + b'"}}', 422, "unsupported-value"),
        (b" " * 20_001, 413, "too-large"),
    ],
)
async def test_what_cannot_be_taken_gets_a_problem_that_names_it(stranger, token, body, status, code):
    """A 4xx of the one form, whatever the body."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": "k"}
    for sent in (body, _in_chunks(body)):
        answer = await stranger.client.post("/v1/forget", content=sent, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert len(answer.json()["detail"]) > 10


async def _in_chunks(body):
    for at in range(0, len(body), 1000):
        yield body[at : at + 1000]


async def test_a_declared_length_is_refused_before_anything_is_read(served, token):
    """100 MB are not even received."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.base.rpartition(":")[2]))
    head = f"POST /v1/forget HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 104857600\r\n\r\n".encode())
    assert b" 413 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_a_form_can_send_is_refused(stranger, token, store, kind):
    """A page of another site can make a browser send these, with the cookies of this one."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"} | ({"Content-Type": kind} if kind else {})
    answer = await stranger.client.post("/v1/forget", content=b'{"key":{"asset_name":"orders"}}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "not-json")
    assert await store.load(KEY) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_request_of_another_site_is_refused(stranger, token, store, headers):
    """Whatever its content type."""
    answer = await stranger.post("forget", FORGET, token=token, **headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "other-site")
    assert await store.load(KEY) is not None


async def test_a_request_of_this_site_is_served(served, stranger, token):
    """A page of one's own may call."""
    answer = await stranger.post("load", FORGET, token=token, Origin=served.base, **{"Sec-Fetch-Site": "same-origin"})
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
async def test_nothing_changes_but_by_post(stranger, token, store, method):
    """A link cannot delete anything."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
    answer = await stranger.client.request(method, "/v1/forget?asset_name=orders", json=FORGET, headers=headers)
    assert answer.status_code == 405
    assert await store.load(KEY) is not None


async def test_too_many_requests_of_one_caller_have_to_wait(served, stranger, token, clock):
    """Twice the limit at once, the limit a second after that; others are not held up."""
    statuses = [(await stranger.post("load", FORGET, token=token)).status_code for _ in range(110)]
    assert statuses == [200] * 100 + [429] * 10
    refused = await stranger.post("load", FORGET, token=token)
    assert (refused.headers["retry-after"], refused.json()["code"]) == ("1", "too-many-requests")
    assert (await stranger.post("load", FORGET, token=served.tokens.add("other"))).status_code == 200
    clock.advance(0.1)
    assert [(await stranger.post("load", FORGET, token=token)).status_code for _ in range(6)] == [200] * 5 + [429]


async def test_who_never_pauses_still_gets_the_limit(stranger, token, clock):
    """A refused request takes nothing from those to come: at three times the limit, every third is served."""
    while (await stranger.post("load", FORGET, token=token)).status_code == 200:
        pass
    statuses = []
    for _ in range(60):
        clock.advance(1 / 150)
        statuses.append((await stranger.post("load", FORGET, token=token)).status_code)
    assert 19 <= statuses.count(200) <= 21


async def test_each_operation_of_a_batch_has_its_own_result(stranger, token, store):
    """In their order; one that fails takes no other with it."""
    entries = [
        {"operation": "load", "arguments": FORGET},
        {"operation": "load", "arguments": {}},
        {"operation": "commit", "arguments": COMMIT, "idempotency_key": "1"},
        {"operation": "forget", "arguments": FORGET},
        {"operation": "explode", "arguments": {}},
    ]
    answer = await stranger.post("batch", {"operations": entries}, token=token, key=None)
    results = answer.json()["results"]
    assert [result["status"] for result in results] == [200, 422, 200, 400, 404]
    assert results[0]["answer"]["version"] == 0
    assert results[4]["problem"]["code"] == "unknown-operation"
    assert (await store.load(KEY)).version == 1


@pytest.mark.parametrize(
    "batch",
    [
        {},
        [],
        {"operations": {}},
        {"operations": [1]},
        {"operations": [{}]},
        {"operations": [{"operation": 1, "arguments": {}}]},
        {"operations": [{"operation": "load", "arguments": {}, "idempotency_key": 5}]},
        {"operations": [{"operation": "load", "arguments": {}, "more": 5}]},
        {"operations": [], "more": 5},
    ],
)
async def test_a_batch_that_is_none_is_refused_as_a_whole(stranger, token, batch):
    """With the place of what is wrong."""
    answer = await stranger.post("batch", batch, token=token)
    assert (answer.status_code, answer.json()["code"]) == (422, "unsupported-value")


async def test_a_batch_has_a_limit(stranger, token):
    """Of operations."""
    entries = [{"operation": "load", "arguments": FORGET}] * 6
    answer = await stranger.post("batch", {"operations": entries}, token=token)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


async def test_an_operation_that_is_not_there_may_be_of_a_newer_client(stranger, token):
    """By itself, as within a batch."""
    answer = await stranger.post("teleport", {}, token=token)
    assert (answer.status_code, "may be older than the client" in answer.json()["detail"]) == (404, True)


async def test_the_description_names_every_operation(stranger, token):
    """With its scope, its key where it changes something, and a problem for every status."""
    answer = await stranger.client.get("/v1/openapi.json", headers={"Authorization": f"Bearer {token}"})
    paths = answer.json()["paths"]
    commit = paths["/v1/commit"]["post"]
    assert "Needs the scope `write`" in commit["description"]
    assert commit["parameters"][0]["name"] == "Idempotency-Key"
    assert set(commit["responses"]) >= {"200", "400", "401", "403", "409", "413", "415", "422", "429", "500", "503"}
    assert "parameters" not in paths["/v1/load"]["post"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (StoreUnavailableError, "no answer from its own store"),
        (StoreNotMigratedError, "with the store that the API serves"),
        (DatabaseFailedError, "its own store failed"),
    ],
)
async def test_what_is_behind_the_server_is_told_to_its_log_only(monkeypatch, caplog, tmp_path, kind, says):
    """A caller learns what is the case and who can mend it, not where the database is; alone and in a batch."""

    async def fail(*_, **__):
        raise kind("the store postgresql://db.internal has a trouble")

    store = MemoryStore()
    monkeypatch.setattr(store, "load", fail)
    body = {"key": {"asset_name": "orders"}}
    async with serving(store, tmp_path) as served, httpx.AsyncClient(base_url=served.base, timeout=60) as client:
        headers = {"Authorization": f"Bearer {served.tokens.add('test')}"}
        alone = await client.post("/v1/load", json=body, headers=headers)
        batch = {"operations": [{"operation": "load", "arguments": body}]}
        (inside,) = (await client.post("/v1/batch", json=batch, headers=headers)).json()["results"]
    for found in (alone.json(), inside["problem"]):
        assert found["status"] == (500 if kind is DatabaseFailedError else 503)
        assert (says in found["detail"], "db.internal" in str(found)) == (True, False)
    assert "db.internal" in caplog.text


async def test_health_says_when_the_store_does_not_answer(stranger, store, monkeypatch, clock):
    """503, and nothing of the reason; asked again and again, the store is asked every two seconds."""
    asked = 0

    async def unreachable(*_):
        nonlocal asked
        asked += 1
        raise StoreUnavailableError("no route to db.internal")

    monkeypatch.setattr(store, "load", unreachable)
    answers = [await stranger.client.get("/v1/health") for _ in range(5)]
    assert {answer.status_code for answer in answers} == {503}
    assert "db.internal" not in answers[0].text
    assert asked == 1
    clock.advance(2)
    monkeypatch.undo()
    assert (await stranger.client.get("/v1/health")).json() == {"status": "healthy"}
