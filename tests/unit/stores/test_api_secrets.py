"""Where the client's secrets go: to the server that was named, as they are, and nowhere else."""

from __future__ import annotations

import contextlib
import json

import pytest

from airflow_provider_incremental.core.errors import ConfigurationError, StoreError
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.stores.api.store import api_store
from airflow_provider_incremental.stores.memory import MemoryStore
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.tokens import TokenAuth
from tests.served import Tokens, body_of, listening

KEY = WatermarkKey("orders")


class Answering:
    """An app that answers every request alike, and keeps what it was sent."""

    def __init__(self, status, content=b"{}", **headers):
        self.status, self.content = status, content
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.seen = []

    async def __call__(self, scope, receive, send):
        body = await body_of(receive)
        self.seen.append((scope["path"], dict(scope["headers"]).get(b"authorization"), body))
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.content})


@pytest.fixture
async def asking():
    """Ask the API of an address for a watermark, and close the client."""
    async with contextlib.AsyncExitStack() as closing:

        async def ask(url):
            client = api_store(url)
            closing.push_async_callback(client.aclose)
            return await client.load(KEY)

        yield ask


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("login", ["me:s3cret", ":s3cret"])
async def test_no_secret_follows_a_redirect(asking, status, login):
    """Neither the password nor the token goes to where an answer points; the error says where that is."""
    elsewhere = Answering(200, b'{"access_token": "theirs"}')
    async with listening(elsewhere) as there:
        redirecting = Answering(status, location=f"http://localhost:{there}/auth/token?token=hush")
        async with listening(redirecting) as port:
            with pytest.raises(StoreError, match=f"redirects to http://localhost:{there}/auth/token") as caught:
                await asking(f"api+http://{login}@127.0.0.1:{port}?timeout=5")
    assert elsewhere.seen == []
    assert "s3cret" not in str(caught.value)
    assert "hush" not in str(caught.value)


async def test_a_netrc_file_does_not_replace_the_token(asking, tmp_path, monkeypatch):
    """What it has for the host, or for all hosts, is for other programs."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password theirs\n")
    monkeypatch.setenv("NETRC", str(netrc))
    tokens = Tokens(tmp_path)
    token = tokens.add()
    async with listening(create_app(MemoryStore(), TokenAuth(path=tokens.path))) as port:
        assert await asking(f"api+http://:{token}@127.0.0.1:{port}?timeout=5") is None
    airflow = Answering(200, json.dumps({"access_token": token}).encode())
    async with listening(airflow) as port:
        with pytest.raises(StoreError):
            await asking(f"api+http://me:p@127.0.0.1:{port}?timeout=5")
    assert [each[:2] for each in airflow.seen] == [
        ("/auth/token", None),
        ("/v1/batch", f"Bearer {token}".encode()),
    ]


async def test_the_proxy_of_the_environment_is_used_unless_the_host_is_left_out(asking, monkeypatch):
    """HTTP_PROXY with its own credentials, and NO_PROXY."""
    proxy, direct = Answering(200), Answering(200)
    async with listening(proxy) as between, listening(direct) as port:
        monkeypatch.setenv("http_proxy", f"http://me:p@127.0.0.1:{between}")
        for excluded, seen in (("", (1, 0)), ("127.0.0.1", (1, 1))):
            monkeypatch.setenv("no_proxy", excluded)
            with pytest.raises(StoreError, match="is that the API"):
                await asking(f"api+http://:token@127.0.0.1:{port}?timeout=5")
            assert (len(proxy.seen), len(direct.seen)) == seen
    assert proxy.seen[0][1] == b"Bearer token"


@pytest.mark.parametrize("content", [b"one\ntwo", b"a\x00b", b"\xff\xfe\x00", b"two words"])
async def test_a_file_that_has_no_token_is_named(asking, tmp_path, content):
    """Several lines, or no text at all: one error of ours, before anything is sent."""
    file, server = tmp_path / "token", Answering(200)
    file.write_bytes(content)
    async with listening(server) as port:
        with pytest.raises(StoreError, match="is no token") as caught:
            await asking(f"api+http://127.0.0.1:{port}?timeout=5&token_file={file}")
    assert server.seen == []
    assert str(file) in str(caught.value)
    assert "two" not in str(caught.value)


@pytest.mark.parametrize("url", ["/auth/token", "garbage", "ftp://host/token", "http://", "http://host:port/"])
def test_a_place_for_tokens_that_is_none_is_refused(url):
    """Before anything is sent; it has to be a whole URL."""
    with pytest.raises(ConfigurationError, match="token_url"):
        api_store(f"api+https://me:p@host?token_url={url}")


async def test_a_proxy_that_is_none_is_named(asking, monkeypatch):
    """An error of ours that shows no password."""
    monkeypatch.setenv("http_proxy", "socks5://me:s3cret@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1") as caught:
        await asking("api+http://:token@127.0.0.1:1?timeout=1")
    assert "s3cret" not in str(caught.value)
