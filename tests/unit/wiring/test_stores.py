"""Which store a process opens: what the setting names, and nothing that it does not."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from airflow_provider_incremental.core.errors import ConfigurationError, StoreNotMigratedError
from airflow_provider_incremental.core.watermark import WatermarkKey
from airflow_provider_incremental.wiring import stores
from airflow_provider_incremental.wiring.stores import open_store, store_url
from airflow_provider_incremental.wiring.sync import store_session


def connection(monkeypatch: pytest.MonkeyPatch, **parts: object) -> None:
    """Define the Airflow connection ``the_store``."""
    monkeypatch.setenv("AIRFLOW_CONN_THE_STORE", json.dumps(parts))
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", "conn:the_store")


def test_a_connection_becomes_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything quoted that could be mistaken, and of the extras only those about TLS."""
    connection(
        monkeypatch,
        conn_type="postgres",
        host="db.example.org",
        port=5433,
        login="air@flow",
        password="p/w:@?",
        schema="in cremental",
        extra={"sslmode": "require", "options": "-c role=root", "sslrootcert": "/ca.pem"},
    )
    url = make_url(store_url())
    assert (url.drivername, url.host, url.port, url.database) == ("postgresql", "db.example.org", 5433, "in cremental")
    assert (url.username, url.password) == ("air@flow", "p/w:@?")
    assert dict(url.query) == {"sslmode": "require", "sslrootcert": "/ca.pem"}


@pytest.mark.parametrize(
    ("parts", "url"),
    [
        ({"host": "af.example"}, "api+https://me:p%2Fw@af.example/incremental/api"),
        ({"host": "af.example", "schema": "http", "port": 8080}, "api+http://me:p%2Fw@af.example:8080/incremental/api"),
        ({"host": "https://af.example/air/flow/"}, "api+https://me:p%2Fw@af.example/air/flow"),
        ({"host": "http://af.example:8080", "port": 8080}, "api+http://me:p%2Fw@af.example:8080/incremental/api"),
        (
            {"host": "h", "login": None, "extra": {"path": "/", "timeout": 5, "ca_file": "/c a", "proxy": "x"}},
            "api+https://:p%2Fw@h/?ca_file=%2Fc+a&timeout=5",
        ),
    ],
)
def test_an_http_connection_becomes_an_api(monkeypatch: pytest.MonkeyPatch, parts: dict[str, object], url: str) -> None:
    """As Airflow's own HTTP hook reads it; of the extras, those that are named."""
    connection(monkeypatch, **{"conn_type": "http", "login": "me", "password": "p/w", **parts})
    assert store_url() == url


def test_an_extra_that_is_misspelt_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was meant is left out in silence."""
    connection(monkeypatch, conn_type="http", host="h", login="me", password="p", extra={"tokenfile": "/t"})
    with pytest.raises(ConfigurationError, match=r"the extra 'tokenfile': is 'token_file' meant"):
        store_url()


@pytest.mark.parametrize(
    ("parts", "url"),
    [
        ({"conn_type": "postgres", "host": "/run/pg"}, "postgresql://me@/db?host=%2Frun%2Fpg"),
        ({"conn_type": "postgres", "host": "::1", "port": 5433}, "postgresql://me@[::1]:5433/db"),
        ({"conn_type": "mysql", "host": "/run/my.sock"}, "mysql://me@/db?unix_socket=%2Frun%2Fmy.sock"),
        ({"conn_type": "mysql", "host": "h", "extra": {"unix_socket": "/s"}}, "mysql://me@h/db?unix_socket=%2Fs"),
        ({"conn_type": "mysql", "host": "h", "extra": {"ssl": {"ca": "/c"}}}, "mysql://me@h/db?ssl_ca=%2Fc"),
        ({"conn_type": "mysql", "host": "h", "extra": {"ssl": '{"ca": "/c"}'}}, "mysql://me@h/db?ssl_ca=%2Fc"),
        ({"conn_type": "mysql", "host": "h", "extra": {"ssl_mode": "REQUIRED"}}, "mysql://me@h/db?ssl_mode=REQUIRED"),
    ],
)
def test_sockets_ipv6_and_tls_reach_the_driver(
    monkeypatch: pytest.MonkeyPatch, parts: dict[str, object], url: str
) -> None:
    """What Airflow's own hooks take of a connection is not silently dropped."""
    connection(monkeypatch, login="me", schema="db", **parts)
    assert make_url(store_url()) == make_url(url)


def test_a_connection_without_the_rest_becomes_an_address_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host, port and password may be missing."""
    connection(monkeypatch, conn_type="mysql", login="me", schema="db")
    assert store_url() == "mysql://me@localhost/db"
    connection(monkeypatch, conn_type="sqlite", host="/var/lib/store.db")
    assert store_url() == "sqlite:////var/lib/store.db"


def test_a_connection_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the setting, the kind, and those that would do."""
    connection(monkeypatch, conn_type="ftp", password="secret")
    with pytest.raises(ConfigurationError, match=r"\[incremental\] store = conn:the_store .*'ftp'.*postgres") as error:
        store_url()
    assert "secret" not in str(error.value)


def test_a_connection_to_aws_names_no_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the address that does, by this connection."""
    connection(monkeypatch, conn_type="aws", password="secret")
    with pytest.raises(ConfigurationError, match=r"s3://bucket/prefix\?aws_conn_id=the_store"):
        store_url()


def test_a_url_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given explicitly wins over the setting."""
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", "postgresql://a@b/c")
    assert store_url() == "postgresql://a@b/c"
    assert store_url("sqlite:////x.db") == "sqlite:////x.db"


def test_the_default_makes_its_own_tables_and_says_once_whom_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A SQLite file under AIRFLOW_HOME."""
    monkeypatch.setattr(stores, "airflow_home", lambda: tmp_path)
    stores._say_embedded_once.cache_clear()
    for _ in range(2):
        with store_session() as session:
            assert session.run(session.store.load(WatermarkKey("orders"))) is None
    assert (tmp_path / "incremental.db").exists()
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1
    assert "one machine only" in said[0].getMessage()


async def test_any_other_file_is_not_made(tmp_path: Path) -> None:
    """Only the default upgrades itself: the message says which command makes the tables."""
    (tmp_path / "other.db").touch()
    async with open_store(f"sqlite:///{tmp_path / 'other.db'}") as store:
        with pytest.raises(StoreNotMigratedError, match="airflow-incremental db upgrade"):
            await store.load(WatermarkKey("orders"))


async def test_an_unknown_scheme_is_refused() -> None:
    """The message names the setting and what is known, and no password."""
    with pytest.raises(ConfigurationError, match=r"\[incremental\] store.*oracle.*postgresql") as error:
        async with open_store("oracle://me:secret@db/x"):
            pytest.fail("opened")
    assert "secret" not in str(error.value)


async def test_everything_in_one_loop_shares_one_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the embedded one; the last one out closes it."""
    monkeypatch.setattr(stores, "airflow_home", lambda: tmp_path)
    async with open_store() as one, open_store() as two:
        assert one is two
    async with open_store() as three:
        assert three is not one
