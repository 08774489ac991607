"""Who may do what over the API: nothing without a policy, and nothing changed by whoever is refused."""

from __future__ import annotations

import datetime as dt
import json

import httpx
import pytest
from fastapi.routing import APIRoute

from airflow_provider_incremental.core.errors import ConfigurationError, StoreError
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.api.operations import OPERATIONS
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.tokens import TokenAuth, new_token
from tests.served import Tokens
from tests.unit.web.conftest import KEY, WATCHES

FORGET = {"key": {"asset_name": "orders"}}
LOAD = FORGET


async def test_no_route_but_health_answers_without_a_caller(store, tmp_path):
    """Every route depends on who calls; a walk over all of them finds the one that does not, and it tells nothing."""
    tokens = Tokens(tmp_path)
    token = tokens.add()
    app = create_app(store, TokenAuth(path=tokens.path))
    open_to_all = []
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
        for route in app.routes:
            assert isinstance(route, APIRoute), f"{route} is not an operation"
            for method in route.methods:
                answer = await client.request(method, route.path, json={})
                if answer.status_code != 401:
                    open_to_all.append((method, route.path, answer.status_code, answer.json()))
                known = await client.request(method, route.path, json={}, headers={"Authorization": f"Bearer {token}"})
                assert known.status_code not in (401, 403)
    assert open_to_all == [("GET", "/v1/health", 200, {"status": "healthy"})]
    assert {route.path for route in app.routes} == {
        *(f"/v1/{name}" for name in OPERATIONS),
        *("/v1/batch", "/v1/health", "/v1/openapi.json"),
    }


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Basic QTpC", "Bearer inc_forged", "Bearer \ud800", "Token TOKEN", "Bearer TOKENx"],
)
async def test_who_is_not_known_gets_401_and_changes_nothing(served, store, stranger, authorization):
    """Missing, forged and mangled tokens: a problem that says how to show one."""
    real = served.tokens.add("real")
    header = authorization.replace("TOKEN", real).encode("utf-8", "surrogatepass")
    headers = [(b"authorization", header)] if authorization else []
    answer = await stranger.client.post("/v1/forget", json=FORGET, headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    sent = authorization.startswith("Bearer ")
    says = "this token is not known here" if sent else "send it in the header Authorization, after the word Bearer"
    assert says in answer.json()["detail"]
    assert await store.load(KEY) is not None


async def test_a_token_is_refused_from_its_end_on(served, store, stranger, clock):
    """Not a moment later; the answer says that it has expired."""
    token = served.tokens.add("short", expires=clock.now() + dt.timedelta(hours=1))
    assert (await stranger.post("load", LOAD, token=token)).status_code == 200
    clock.advance(3600)
    answer = await stranger.post("forget", FORGET, token=token)
    assert (answer.status_code, answer.json()["detail"]) == (401, "the token has expired")
    assert await store.load(KEY) is not None


@pytest.mark.parametrize("scopes", [["read"], ["write"], ["read", "write"], ["admin"]])
async def test_a_scope_that_is_not_named_is_not_given(served, store, stranger, scopes):
    """Alone and within a batch: each operation needs the scope that the description names."""
    token = served.tokens.add("limited", scopes=scopes)
    report = {"key": {"asset_name": "orders"}, "report": {}}
    calls = [("load", LOAD, "read"), ("report", report, "write"), ("forget", {"key": {"asset_name": "x"}}, "admin")]
    for name, arguments, scope in calls:
        expected = 200 if scope in scopes else 403
        assert (await stranger.post(name, arguments, token=token)).status_code == expected
        entry = {"operation": name, "arguments": arguments, "idempotency_key": "b"}
        results = (await stranger.post("batch", {"operations": [entry]}, token=token)).json()["results"]
        assert [result["status"] for result in results] == [expected]
    assert (await store.load(KEY)).status.last_poll_at is None or "write" in scopes


async def test_a_token_sees_and_touches_its_namespaces_only(served, store, stranger):
    """Others are refused by name, left out of lists, and what names none means its own."""
    mine, other = WatermarkKey("orders", "mine"), WatermarkKey("orders", "other")
    for key in (mine, other):
        await store.register(key, WATCHES)
    token = served.tokens.add("mine", namespaces=["mine"])

    async def asks(name, arguments):
        answer = await stranger.post(name, arguments, token=token)
        return answer.status_code, answer.json()

    assert (await asks("load", {"key": {"asset_name": "orders", "namespace": "other"}}))[0] == 403
    assert (await asks("load", {"key": {"asset_name": "orders"}}))[0] == 403
    assert (await asks("forget", {"key": {"asset_name": "orders", "namespace": "other"}}))[0] == 403
    status, listed = await asks("list_watermarks", {})
    assert (status, [each["key"] for each in listed]) == (200, [{"asset_name": "orders", "namespace": "mine"}])
    selector = {"asset_name": "orders"}
    status, keys = await asks("subscribe", {"selector": selector, "consumer": "load", "start": "earliest"})
    assert (status, keys) == (200, [{"asset_name": "orders", "namespace": "mine"}])
    assert [each.key for each in await store.consumers()] == [mine]
    assert [each["key"] for each in (await asks("consumers", {}))[1]] == [{"asset_name": "orders", "namespace": "mine"}]
    assert await store.load(other) is not None


async def test_what_others_did_takes_no_room_in_a_list(served, store, stranger):
    """A list with a limit has as many as were asked for of what the caller may see, newest first, and no more."""
    mine, other = WatermarkKey("orders", "mine"), WatermarkKey("orders", "other")
    for number in range(4):
        await store.rewind(mine, number, reread=False, act=Act(f"me {number}"))
    for number in range(30):
        await store.rewind(other, number, reread=False, act=Act("somebody"))
    token = served.tokens.add("mine", namespaces=["mine"])
    for limit, seen in ((3, ["me 3", "me 2", "me 1"]), (10, ["me 3", "me 2", "me 1", "me 0"]), (0, [])):
        answer = await stranger.post("journal", {"limit": limit}, token=token)
        assert [each["who"] for each in answer.json()] == seen


async def test_a_token_moves_watermarks_of_its_namespaces_only(served, store):
    """Out of a store, and into one: what is not its own it neither reads nor brings."""
    for namespace in ("mine", "other"):
        await store.register(WatermarkKey("orders", namespace), WATCHES)
    mine, other = [await store.export(WatermarkKey("orders", namespace)) for namespace in ("mine", "other")]
    url = served.url.replace(
        served.url.partition("//:")[2].partition("@")[0], served.tokens.add("m", namespaces=["mine"])
    )
    client = api_store(url)
    assert await client.export(mine.watermark.key) == mine
    with pytest.raises(StoreError, match="may not touch namespace 'other'"):
        await client.export(other.watermark.key)
    await store.forget(mine.watermark.key)
    await store.forget(other.watermark.key)
    await client.restore(mine, Act("somebody"))
    with pytest.raises(StoreError, match="may not touch namespace 'other'"):
        await client.restore(other)
    assert [each.key.namespace for each in await store.list_watermarks()] == ["default", "mine"]
    assert [entry.who for entry in await store.journal(mine.watermark.key)] == ["somebody (as m)"]
    await client.aclose()


async def test_several_namespaces_have_to_be_named(served, stranger):
    """A selection of all of them would be a selection of more than the token has."""
    token = served.tokens.add("two", namespaces=["a", "b"])
    answer = await stranger.post("pending", {"selector": {"asset_name": "orders"}, "consumer": "load"}, token=token)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert "a, b" in answer.json()["detail"]


async def test_tokens_are_replaced_without_a_pause(served, stranger):
    """The new one works before the old one is gone, and the old one not after; a broken file changes nothing."""
    old = served.tokens.add("client")
    new = served.tokens.add("client")
    assert [(await stranger.post("load", LOAD, token=each)).status_code for each in (old, new)] == [200, 200]
    served.tokens.remove("client")
    new = served.tokens.add("client")
    assert [(await stranger.post("load", LOAD, token=each)).status_code for each in (old, new)] == [401, 200]
    served.tokens.path.write_text("{half a fi")
    assert [(await stranger.post("load", LOAD, token=each)).status_code for each in (old, new)] == [401, 200]
    served.tokens.path.unlink()
    assert [(await stranger.post("load", LOAD, token=each)).status_code for each in (old, new)] == [401, 200]
    served.tokens.path.write_text('{"tokens": []}')
    assert (await stranger.post("load", LOAD, token=new)).status_code == 401


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "[]",
        '{"tokens": []}',
        '{"tokens": [{"name": "a", "scopes": ["read"]}]}',
        '{"tokens": [{"name": "a", "hash": "TOKEN", "scopes": ["read"]}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": []}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": ["all"]}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": "read"}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": ["read"], "namespace": "mine"}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": ["read"], "namespaces": "mine"}]}',
        '{"tokens": [{"name": "a", "hash": "HASH", "scopes": ["read"], "expires": "soon"}]}',
    ],
)
def test_no_server_starts_without_a_policy_that_is_understood(tmp_path, content):
    """No file, no token, a word that means nothing: better no server than one that is open or shut by mistake."""
    path = tmp_path / "tokens.json"
    if content is not None:
        path.write_text(content.replace("HASH", "sha256:" + 64 * "0").replace("TOKEN", new_token()))
    with pytest.raises(ConfigurationError, match="the file of tokens"):
        TokenAuth(path=path)


def test_a_token_is_kept_as_a_hash(tmp_path):
    """Who reads the file cannot call."""
    tokens = Tokens(tmp_path)
    token = tokens.add()
    assert token not in tokens.path.read_text()
    assert json.loads(tokens.path.read_text())["tokens"][0]["hash"].startswith("sha256:")


def test_a_store_that_cannot_do_things_once_is_not_served(tmp_path):
    """A lost answer would commit twice; that is found out when the app is made."""
    tokens = Tokens(tmp_path)
    tokens.add()
    with pytest.raises(ConfigurationError, match="once"):
        create_app(object(), TokenAuth(path=tokens.path))


async def test_an_act_has_the_name_of_who_really_calls(served, stranger, store):
    """A name that the caller gives is what it says, unless its token vouches for it."""
    body = {"key": {"asset_name": "orders"}, "cursor": 5, "reread": False, "act": {"who": "the boss"}}
    await stranger.post("rewind", body, token=served.tokens.add("intern"), key="1")
    await stranger.post("rewind", body | {"act": {"who": "intern"}}, token=served.tokens.add("intern"), key="2")
    await stranger.post("rewind", body, token=served.tokens.add("console", vouches=True), key="3")
    assert [each.who for each in await store.journal()] == ["the boss", "intern", "the boss (as intern)"]


async def test_every_write_is_logged_with_who_and_what(served, stranger, caplog):
    """Also one that is refused; a name with a line break makes no second line."""
    caplog.set_level("INFO", logger="airflow_provider_incremental")
    token = served.tokens.add("intern")
    await stranger.post("report", {"key": {"asset_name": "two\nlines"}, "report": {}}, token=token)
    body = {"key": {"asset_name": "orders"}, "watches": {"source": "other", "cursor": "id"}}
    await stranger.post("commit", COMMIT, token=token, key="1")
    await stranger.post("commit", COMMIT, token=token, key="2")
    await stranger.post("register", body, token=token)
    lines = [record.getMessage() for record in caplog.records if "operation=" in record.getMessage()]
    assert lines == [
        "operation=report caller=intern about=two lines outcome=done",
        "operation=commit caller=intern about=orders outcome=done",
        "operation=commit caller=intern about=orders outcome=refused: ConflictError",
        "operation=register caller=intern about=orders outcome=refused: WatchesAnotherSourceError",
    ]


COMMIT = {
    "watermark": {
        "key": {"asset_name": "orders"},
        "cursor": None,
        "version": 0,
        "last_seq": 0,
        "created_at": "2026-01-01T12:00:00+00:00",
        "watches": {"source": "table orders", "cursor": "id"},
        "status": {},
    },
    "high": 7,
    "batches": [{"low": None, "high": 7, "items": [1, 2], "count": 2, "id": "abc"}],
    "report": {},
}
