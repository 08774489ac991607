"""The client of the API: one effect whatever becomes of answers, few requests, and errors that say what to do."""

from __future__ import annotations

import asyncio
import json

import pytest

from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.errors import StoreError, StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores.api.problems import MEDIA_TYPE, problem_of
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.tokens import TokenAuth
from tests.served import Tokens, body_of, listening
from tests.unit.cli.test_api import certificate as certificate_for_this_machine

KEY = WatermarkKey("orders")
WATCHES = Watches("table orders", "id")


class Gate:
    """Stands before an app, counts requests, and answers some itself or loses answers of the app."""

    def __init__(self, app=None):
        self.app = app
        self.requests = []
        self.planned = []

    async def __call__(self, scope, receive, send):
        body = await body_of(receive)
        self.requests.append((scope["path"], dict(scope["headers"]), body))
        plan = self.planned.pop(0) if self.planned else "serve"
        if plan == "serve":
            await self.app(scope, self._again(body), send)
        elif plan == "lose the answer":
            await self.app(scope, self._again(body), self._nowhere)
            # A response that ends too early: the server hangs up.
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"100")]})
        elif plan == "hang":
            await asyncio.Event().wait()
        else:
            status, kind, content = plan
            headers = [(b"content-type", kind.encode()), (b"content-length", str(len(content)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": content})

    @staticmethod
    def _again(body):
        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        return receive

    @staticmethod
    async def _nowhere(_):
        return None


class Line:
    """A client, the gate that its requests pass, and the store behind."""

    def __init__(self, client, gate, store, tokens):
        self.client, self.gate, self.store, self.tokens = client, gate, store, tokens


@pytest.fixture
def token_file(tmp_path):
    """Where the client's token is."""
    return tmp_path / "token"


@pytest.fixture
async def line(tmp_path, token_file):
    """A client whose token is in a file, and whose patience ends after 5 s."""
    store, tokens = MemoryStore(), Tokens(tmp_path)
    token_file.write_text(tokens.add() + "\n")
    gate = Gate(create_app(store, TokenAuth(path=tokens.path)))
    async with listening(gate) as port:
        client = api_store(f"api+http://127.0.0.1:{port}/?token_file={token_file}&timeout=5")
        yield Line(client, gate, store, tokens)
        await client.aclose()


def answer(status, error):
    """What a server answers that refuses a whole request."""
    return status, MEDIA_TYPE, json.dumps(problem_of(error)).encode()


async def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_done_twice(line):
    """The commit is applied once, the report is counted once, and both calls return what they did."""
    watermark = await line.client.register(KEY, WATCHES)
    line.gate.planned = ["lose the answer", "lose the answer", "serve", "lose the answer"]
    moved, batches = await line.client.commit(
        watermark, 1, [NewBatch(low=0, high=1, items=["a"], count=1)], PollReport()
    )
    await line.client.report(KEY, PollReport(conflicts=2))
    assert (moved.version, [batch.seq for batch in batches]) == (1, [1])
    found = await line.store.load(KEY)
    assert (found.version, found.status.conflicts, len(await line.store.history(KEY))) == (1, 2, 1)
    assert len(line.gate.requests) == 6


async def test_every_operation_is_done_once_although_each_of_its_answers_is_lost(line):
    """Also those that the server does not remember, since twice is once by themselves."""
    client, only = line.client, Selector("orders")

    async def lossy(call):
        line.gate.planned = ["lose the answer", "lose the answer"]
        return await call

    watermark = await lossy(client.register(KEY, WATCHES))
    ids = []
    for number in (1, 2):
        batch = NewBatch(low=None, high=number, items=[number], count=1)
        ids.append(batch.id)
        watermark, _ = await lossy(client.commit(watermark, number, [batch], PollReport()))
    assert await lossy(client.begin_announcement(KEY, 2, 60.0)) == 0
    await lossy(client.confirm(KEY, ids))
    await lossy(client.subscribe(only, "load", "earliest"))
    first = await lossy(client.claim(only, "load", "a", 60.0))
    await lossy(client.acknowledge(await lossy(client.renew(first, 120.0))))
    second = await lossy(client.claim(only, "load", "b", 60.0))
    await lossy(client.release(second, "boom"))
    again = await lossy(client.claim(only, "load", "c", 60.0))
    assert [each.batch.seq for each in (first, second, again)] == [1, 2, 2]
    assert (again.attempt, watermark.version, len(await line.store.history(KEY))) == (2, 2, 2)
    assert await lossy(client.forget(KEY)) is True


@pytest.mark.parametrize(
    "plan",
    [
        (502, "text/html", b"<h1>Bad Gateway</h1>"),
        (504, "text/html", b""),
        (503, "text/plain", b"starting"),
        (429, "text/plain", b"slow down"),
        answer(503, StoreUnavailableError("the database is restarting")),
    ],
)
async def test_a_server_that_is_away_for_a_moment_is_waited_for(line, plan):
    """A proxy's error page, a start, a limit, a database that restarts: the operation succeeds a little later."""
    line.gate.planned = [plan, plan]
    assert await line.client.register(KEY, WATCHES)
    assert len(line.gate.requests) == 3


@pytest.mark.parametrize(
    ("plan", "error", "says"),
    [
        (answer(503, StoreNotMigratedError("run db upgrade")), StoreNotMigratedError, "run db upgrade"),
        ((404, "application/json", b'{"detail":"Not Found"}'), StoreError, "check the path"),
        ((200, "text/html", b"<h1>Welcome</h1>"), StoreError, "is that the API"),
        ((200, "application/json", b'{"results":[]}'), StoreError, "0 results to 1 operations"),
        ((302, "text/html", b""), StoreError, "is that the API"),
        ((413, "text/html", b"too large"), StoreError, "raise the limit"),
        ((500, "text/html", b"oops"), StoreError, "500"),
    ],
)
async def test_what_waiting_does_not_mend_fails_at_once_and_says_what_to_do(line, plan, error, says):
    """One request, one error of ours."""
    line.gate.planned = [plan]
    with pytest.raises(error, match=says):
        await line.client.register(KEY, WATCHES)
    assert len(line.gate.requests) == 1


async def test_a_server_that_hangs_or_is_gone_is_unavailable():
    """After as long as the address says; the message names the server and never the token."""
    gate = Gate()
    async with listening(gate) as port:
        client = api_store(f"api+http://:s3cret@127.0.0.1:{port}?timeout=1")
        gate.planned = ["hang"] * 3
        with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port} did not answer in 1 s") as caught:
            await client.load(KEY)
        await client.aclose()
    gone = api_store(f"api+http://:s3cret@127.0.0.1:{port}?timeout=1")
    with pytest.raises(StoreUnavailableError, match="cannot be reached") as refused:
        await gone.load(KEY)
    await gone.aclose()
    assert "s3cret" not in f"{caught.value} {refused.value} {client!r}"


async def test_a_wrong_scheme_is_told(tmp_path):
    """TLS to a server that has none fails at once and says so; the other way round the error asks for it."""
    async with listening(Gate()) as port:
        client = api_store(f"api+https://:t@127.0.0.1:{port}?timeout=600")
        with pytest.raises(StoreError, match=r"speaks no TLS: write api\+http://"):
            await client.load(KEY)
        await client.aclose()
    certificate, key = certificate_for_this_machine(tmp_path)
    async with listening(Gate(), ssl_certfile=certificate, ssl_keyfile=key) as port:
        client = api_store(f"api+http://:t@127.0.0.1:{port}?timeout=1")
        with pytest.raises(StoreUnavailableError, match=r"want TLS: api\+https://"):
            await client.load(KEY)
        await client.aclose()


async def test_a_token_that_is_refused_is_read_again(line, token_file):
    """Tokens are replaced under a client that runs; the one that is refused is asked for no second time."""
    await line.client.register(KEY, WATCHES)
    line.tokens.remove("everything")
    new = line.tokens.add("everything")
    with pytest.raises(StoreError, match="check the token"):
        await line.client.load(KEY)
    token_file.write_text(new)
    assert await line.client.load(KEY)


async def test_a_user_gets_tokens_from_airflow_and_new_ones_when_they_expire(tmp_path):
    """By login and password, as scripts get them; many calls at once ask once."""
    store, tokens = MemoryStore(), Tokens(tmp_path)
    logins = []

    async def airflow(scope, receive, send):
        if scope["path"] != "/auth/token":
            await app(scope, receive, send)
            return
        body = (await receive())["body"]
        logins.append(json.loads(body))
        tokens.remove("app")
        content = json.dumps({"access_token": tokens.add("app")}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    tokens.add("other")
    app = create_app(store, TokenAuth(path=tokens.path))
    async with listening(airflow) as port:
        client = api_store(f"api+http://me:p%40ss@127.0.0.1:{port}")
        await asyncio.gather(*[client.register(WatermarkKey(f"asset {each}"), WATCHES) for each in range(20)])
        assert logins == [{"username": "me", "password": "p@ss"}]
        tokens.remove("app")  # expired
        await asyncio.gather(*[client.load(WatermarkKey(f"asset {each}")) for each in range(20)])
        assert len(logins) == 2
        await client.aclose()


async def test_calls_that_are_made_at_once_travel_together(line):
    """Five hundred triggers that poll at the same time make a handful of requests."""
    await asyncio.gather(*[line.client.register(WatermarkKey(f"asset {each}"), WATCHES) for each in range(500)])
    assert len(line.gate.requests) == 5
    assert len(await line.store.list_watermarks()) == 500


async def test_many_callers_share_a_pace_and_one_alone_has_none(line):
    """Who is alone never waits for others to join; several make at most 50 requests a second for long."""
    loop = asyncio.get_running_loop()

    async def caller(calls):
        for _ in range(calls):
            await line.client.load(KEY)

    await caller(60)
    assert len(line.gate.requests) == 60
    line.gate.requests.clear()
    began = loop.time()
    await asyncio.gather(*[caller(15) for _ in range(10)])
    lasted = loop.time() - began
    assert len(line.gate.requests) <= 20 + 50 * lasted + 2


async def test_who_stops_waiting_leaves_the_others_alone(line):
    """A trigger that is cancelled takes no other trigger's call with it."""
    line.gate.planned = [(503, "text/plain", b"starting")]
    first = asyncio.create_task(line.client.register(KEY, WATCHES))
    second = asyncio.create_task(line.client.register(WatermarkKey("other"), WATCHES))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).key == WatermarkKey("other")
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_an_older_server_says_that_it_does_not_know_an_operation(line):
    """So that people know which side to upgrade."""
    line.gate.planned = [
        (
            200,
            "application/json",
            b'{"results":[{"status":404,"problem":{"code":"unknown-operation","detail":"upgrade it"}}]}',
        )
    ]
    with pytest.raises(StoreError, match="upgrade it"):
        await line.client.consumers()
