"""The commands about the API: a server that does not start open, and tokens that are shown once."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys

import httpx
import pytest

from airflow_provider_incremental.cli import bench
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import StoreError
from airflow_provider_incremental.core.watermark import Watches, WatermarkKey
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.stores.sql.store import SqlStore
from airflow_provider_incremental.wiring.sync import store_session
from harness.environment import scrub
from harness.processes import free_ports
from tests.unit.cli.conftest import Result

WATCHES = Watches("table orders", "id")


@pytest.fixture
def run(capsys):
    """Run a command."""

    def command(*arguments):
        capsys.readouterr()
        code = main(arguments)
        caught = capsys.readouterr()
        return Result(code, caught.out, caught.err)

    return command


@pytest.fixture
def tokens(tmp_path):
    """The path of a file of tokens that is not there yet."""
    return tmp_path / "etc" / "tokens.json"


def entries(tokens):
    return json.loads(tokens.read_text())["tokens"]


def test_a_token_is_printed_once_and_kept_as_a_hash(run, tokens):
    """Nobody but the owner can read the file, and nobody at all the token."""
    made = run("api-token", str(tokens), "--name", "triggerer", "--scope", "read", "--scope", "write")
    assert made.code == 0, made
    token = made.out.strip()
    assert token.startswith("inc_")
    assert token not in tokens.read_text()
    assert [(each["name"], each["scopes"]) for each in entries(tokens)] == [("triggerer", ["read", "write"])]
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600


def test_tokens_are_retired_and_revoked_by_name(run, tokens):
    """The old one ends a while after the new one is there; a revoked one at once; other names are left alone."""
    for name in ("triggerer", "worker"):
        run("api-token", str(tokens), "--name", name, "--scope", "read")
    run("api-token", str(tokens), "--name", "triggerer", "--scope", "read", "--retire-in", "24", "--namespace", "eu")
    old, other, new = entries(tokens)
    left = dt.datetime.fromisoformat(old["expires"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(hours=23) < left < dt.timedelta(hours=25)
    assert ("expires" in other, "expires" in new, new["namespaces"]) == (False, False, ["eu"])
    assert "2 tokens of triggerer" in run("api-token", str(tokens), "--name", "triggerer", "--revoke").out
    assert [each["name"] for each in entries(tokens)] == ["worker"]


@pytest.mark.parametrize("wrong", [["--days=-1"], ["--days=never"], ["--retire-in=-5"], ["--days=inf"]])
def test_a_token_for_less_than_no_time_is_not_made(run, tokens, wrong):
    """It would be dead when it is printed."""
    with pytest.raises(SystemExit):
        run("api-token", str(tokens), "--name", "x", "--scope", "read", *wrong)
    assert not tokens.exists()


def test_a_name_without_tokens_is_not_revoked(run, tokens):
    """A slip of the pen does not pass for a revocation: the names that there are are told."""
    run("api-token", str(tokens), "--name", "worker", "--scope", "read")
    refused = run("api-token", str(tokens), "--name", "werker", "--revoke")
    assert refused.code == 1
    assert "no token of werker; nothing was changed. There are tokens of: worker" in refused.err
    assert len(entries(tokens)) == 1


@pytest.mark.parametrize("port", ["99999", "0", "http"])
def test_a_port_that_is_none_is_refused(run, tokens, port, capsys):
    """Before anything is opened."""
    with pytest.raises(SystemExit):
        run("api-server", "--tokens", str(tokens), "--port", port)
    assert "is not a port: 1 to 65535" in capsys.readouterr().err


def test_a_certificate_that_is_not_there_is_named(run, tokens, tmp_path):
    """With the options that named it."""
    run("api-token", str(tokens), "--name", "worker", "--scope", "read")
    given = ("--tls-cert", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.key"))
    refused = run("api-server", "--tokens", str(tokens), *given)
    assert refused.code == 1
    assert f"--tls-cert {tmp_path}/no.pem and --tls-key {tmp_path}/no.key cannot be used" in refused.err


def test_a_token_that_allows_nothing_is_not_made(run, tokens):
    """A scope has to be named."""
    refused = run("api-token", str(tokens), "--name", "x")
    assert (refused.code, tokens.exists()) == (1, False)
    assert "--scope" in refused.err


@pytest.mark.parametrize(
    "wrong", [["--name", " "], ["--name", "a\nb"], ["--name", "x", "--namespace", ""], ["--name", "x", "--days", "1e9"]]
)
def test_what_would_spoil_the_file_is_refused(run, tokens, wrong):
    """The other tokens stay usable, and can be revoked."""
    run("api-token", str(tokens), "--name", "y", "--scope", "read")
    before = tokens.read_text()
    refused = run("api-token", str(tokens), "--scope", "read", *wrong)
    assert (refused.code, refused.out, tokens.read_text()) == (1, "", before)
    assert any(option in refused.err for option in wrong if option.startswith("--"))


def test_a_file_that_no_server_would_read_is_not_changed(run, tokens):
    """Whatever it is, it is not overwritten."""
    tokens.parent.mkdir()
    tokens.write_text("not ours")
    refused = run("api-token", str(tokens), "--name", "x", "--scope", "read")
    assert (refused.code, tokens.read_text()) == (1, "not ours")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--store", "memory://"], "the file of tokens"),
        (["--store", "memory://", "--host", "10.0.0.1", "WITH TOKENS"], "in the clear"),
        (["--store", "memory://", "--tls-cert", "x.pem", "WITH TOKENS"], "together"),
        (["--store", "api+https://:t@host", "WITH TOKENS"], "itself an API"),
        (["--store", "sqlite:////nowhere/x.db", "WITH TOKENS"], "db upgrade"),
    ],
)
def test_no_server_starts_open_or_with_nothing_to_serve(run, tokens, arguments, says):
    """It says what is missing, and ends."""
    if "WITH TOKENS" in arguments:
        run("api-token", str(tokens), "--name", "x", "--scope", "read")
    refused = run("api-server", "--tokens", str(tokens), *[each for each in arguments if each != "WITH TOKENS"])
    assert refused.code == 1
    assert says in refused.err


def certificate(folder):
    """A certificate of this machine, which signs itself."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_a_server_of_its_own_serves_over_tls_until_it_is_told_to_stop(run, tokens, tmp_path):
    """A process of its own, a store in a file, a client that trusts its certificate, and a peaceful end."""
    cert, key = certificate(tmp_path)
    token = run("api-token", str(tokens), "--name", "triggerer", "--scope", "read", "--scope", "write").out.strip()
    path, port = tmp_path / "store.db", free_ports(1)[0]
    upgrade_embedded(path)
    command = [sys.executable, "-m", "airflow_provider_incremental.cli", "api-server", "--store", f"sqlite:///{path}"]
    command += ["--tokens", str(tokens), "--port", str(port), "--tls-cert", str(cert), "--tls-key", str(key)]
    environment = dict(os.environ)
    scrub(environment)
    environment["AIRFLOW_HOME"] = str(tmp_path)
    log = tmp_path / "log"
    with log.open("w") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server:
        try:
            wait_until_healthy(f"https://127.0.0.1:{port}/v1/health", cert, server)
            url = f"api+https://:{token}@127.0.0.1:{port}?ca_file={cert}"
            with store_session(url) as session:
                session.run(session.store.register(WatermarkKey("orders"), WATCHES))
                assert session.run(session.store.load(WatermarkKey("orders"))).watches == WATCHES
            listed = run("list", "--store", url, "--output", "json")
            assert [each["asset"] for each in listed.json] == ["orders"]
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(30)
    assert code in (0, -signal.SIGTERM), log.read_text()
    assert "operation=register caller=triggerer about=orders outcome=done" in log.read_text()
    assert token not in log.read_text()


def wait_until_healthy(url, cert, server):
    """Wait for a server to answer, as long as it runs."""
    trusted = ssl.create_default_context(cafile=cert)
    while server.poll() is None:
        try:
            answer = httpx.get(url, verify=trusted, timeout=60)
        except httpx.ConnectError:
            continue
        assert answer.json() == {"status": "healthy"}
        return
    pytest.fail("the server ended")


def test_a_benchmark_times_cycles_and_leaves_nothing(run, tmp_path, monkeypatch):
    """Two stores in turns, whole cycles and the operations alone, with the overhead of one against the other."""
    monkeypatch.setattr(bench, "_PAGES", (0.001,))
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two")]
    for name in ("one", "two"):
        upgrade_embedded(tmp_path / f"{name}.db")
    arguments = ["--store", urls[0], "--against", urls[1], "--repeat", "3", "--items", "2", "--namespace", "eu"]
    found = run("bench", *arguments, "--output", "json").json
    assert [(each["cycle"], "overhead_pct" in each) for each in found] == [
        ("whole", True),
        ("whole", False),
        ("operations", True),
        ("operations", False),
    ]
    assert all(0 < each["p50_ms"] <= each["p95_ms"] <= each["p99_ms"] for each in found)
    assert all(each["cycles_per_s"] > 0 for each in found)
    assert "overhead_pct" in run("bench", *arguments).out
    assert [run("list", "--store", url, "--output", "json").json for url in urls] == [[], []]


def test_a_benchmark_of_the_api_starts_a_server_and_ends_it(run, tmp_path, monkeypatch):
    """Over the same database, on a port of its own: small batches and those of 300 items, API beside database."""
    monkeypatch.setattr(bench, "_PAGES", (0.001,))
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    url = f"sqlite:///{tmp_path}/one.db"
    upgrade_embedded(tmp_path / "one.db")
    said = run("bench", "--mode", "api", "--store", url, "--repeat", "2", "--output", "json")
    assert (said.code, said.err) == (0, "")
    kinds = [(each["items"], each["cycle"], each["store"].split()[0], "overhead_pct" in each) for each in said.json]
    assert kinds == [
        (items, cycle, store, store == "<ApiStore")
        for items in (1, 300)
        for cycle in ("whole", "operations")
        for store in ("<ApiStore", "<SqlStore")
    ]
    (port,) = {int(each["store"].rpartition(":")[2].rstrip(">")) for each in said.json if "Api" in each["store"]}
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass
    assert run("list", "--store", url, "--output", "json").json == []


def test_a_benchmark_of_the_database_alone(run, tmp_path, monkeypatch):
    """One store, and the number of items that was asked for."""
    monkeypatch.setattr(bench, "_PAGES", (0.001,))
    upgrade_embedded(tmp_path / "one.db")
    url = f"sqlite:///{tmp_path}/one.db"
    found = run("bench", "--mode", "direct", "--store", url, "--repeat", "2", "--items", "7", "-o", "json").json
    assert [(each["items"], each["cycle"]) for each in found] == [(7, "whole"), (7, "operations")]


def test_a_benchmark_keeps_its_figures_when_it_may_not_tidy_up(run, tmp_path, monkeypatch):
    """They are printed; what it left is named, with the command that deletes it and a status of 1."""
    monkeypatch.setattr(bench, "_PAGES", (0.001,))
    upgrade_embedded(tmp_path / "one.db")

    async def forbidden(*_):
        raise StoreError("it needs the scope admin")

    monkeypatch.setattr(SqlStore, "forget", forbidden)
    url = f"sqlite:///{tmp_path}/one.db"
    said = run("bench", "--mode", "direct", "--store", url, "--repeat", "2", "--items", "7", "-o", "json")
    assert (said.code, [each["cycle"] for each in said.json]) == (1, ["whole", "operations"])
    left = [each["asset"] + "/default/" + each["key"] for each in run("list", "--store", url, "-o", "json").json]
    assert len(left) == 2
    assert all(f"airflow-incremental forget '{name}'" in said.err for name in left)


def test_a_benchmark_of_asset_state_says_why_there_is_none(run, tmp_path):
    """With what to use in its place."""
    upgrade_embedded(tmp_path / "one.db")
    said = run("bench", "--mode", "asset-state", "--store", f"sqlite:///{tmp_path}/one.db")
    assert (said.code, said.out, "no compare-and-swap" in said.err) == (1, "", True)


def test_a_benchmark_says_why_no_server_came_up(run, tmp_path):
    """An API over an API is refused; of a server that ends, its last words are shown; one time is no distribution."""
    with pytest.raises(SystemExit):
        run("bench", "--repeat", "1")
    said = run("bench", "--mode", "api", "--store", "api+http://:t@127.0.0.1:1")
    assert (said.code, "the store is itself an API" in said.err) == (1, True)
    said = run("bench", "--mode", "api", "--store", f"sqlite:///{tmp_path}/none/store.db")
    assert (said.code, f"there is no folder {tmp_path}/none" in said.err) == (1, True)
