"""The address of a store: every usual spelling is understood, and what is wrong is said without the password."""

from __future__ import annotations

import ssl
import sys
from typing import Any

import certifi
import pytest
from sqlalchemy import event

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.stores.registry import make_store
from airflow_provider_incremental.stores.sql.engine import create_engine, shown, store_url

SECRET = "hunter2"


@pytest.mark.parametrize(
    "scheme", ["postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg2", "postgresql+psycopg"]
)
def test_every_spelling_of_postgres(scheme: str) -> None:
    """Whatever driver an address names, PostgreSQL is reached through asyncpg."""
    url = store_url(f"{scheme}://app:{SECRET}@db:5433/shop")
    assert url.drivername == "postgresql+asyncpg"
    assert (url.username, url.password, url.host, url.port, url.database) == ("app", SECRET, "db", 5433, "shop")


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mysql+mysqldb", "mysql+aiomysql"])
def test_every_spelling_of_mysql(scheme: str) -> None:
    """Whatever driver an address names, MySQL and MariaDB are reached through aiomysql."""
    assert store_url(f"{scheme}://app:{SECRET}@db/shop").drivername == "mysql+aiomysql"


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+aiosqlite", "sqlite+pysqlite"])
def test_every_spelling_of_sqlite(scheme: str) -> None:
    """A SQLite file is named by its absolute path."""
    url = store_url(f"{scheme}:////var/lib/store.db")
    assert (url.drivername, url.database) == ("sqlite+aiosqlite", "/var/lib/store.db")


@pytest.mark.parametrize(
    "url",
    [
        f"redis://app:{SECRET}@db/0",
        f"postgresql+pg8000://app:{SECRET}@db/shop",
        f"app:{SECRET}@db/shop",
        f"postgresql://app:{SECRET}@db:port/shop",
        f"postgresql://app:{SECRET}@[::1/shop",
        SECRET,
        "",
        "conn:incremental",
    ],
)
def test_an_address_that_no_store_knows(url: str) -> None:
    """The error names the setting and how to write it, and never shows the password."""
    with pytest.raises(ConfigurationError, match=r"\[incremental\] store") as caught:
        make_store(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_an_unknown_scheme_is_named_with_the_known_ones() -> None:
    """Who mistypes a scheme reads what it could have been."""
    with pytest.raises(ConfigurationError, match=r"'postgresq'.*postgresql://.*mysql://.*sqlite:///.*memory://"):
        store_url("postgresq://db/shop")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"])
def test_a_sqlite_without_a_file(url: str) -> None:
    """A database in memory would be another one for each connection."""
    with pytest.raises(ConfigurationError, match="names no file"):
        store_url(url)


def test_a_relative_sqlite_path() -> None:
    """A path that depends on where a process was started would be another file for each."""
    with pytest.raises(ConfigurationError, match=r"absolute path.*sqlite:////"):
        store_url("sqlite:///store.db")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without aiomysql, a MySQL address says what to install."""
    monkeypatch.setitem(sys.modules, "aiomysql", None)
    with pytest.raises(ConfigurationError, match=r"airflow-provider-incremental\[mysql\]"):
        store_url("mysql://app@db/shop")


def test_a_store_is_shown_without_secrets() -> None:
    """Errors and logs show where a store is, and neither password nor options."""
    assert shown(store_url(f"postgres://app:{SECRET}@db/shop?sslpassword={SECRET}")) == "postgresql://app:***@db/shop"
    assert repr(make_store(f"mysql://app:{SECRET}@db/shop")) == "<SqlStore mysql://app:***@db/shop>"
    assert shown(store_url("sqlite:////var/lib/store.db")) == "sqlite:////var/lib/store.db"


def arguments_of(url: str) -> dict[str, object]:
    """What the driver is called with."""
    engine = create_engine(store_url(url)).sync_engine
    found: dict[str, object] = {}

    def note(*given: Any) -> None:
        found.update(given[-1])
        raise ConnectionAbortedError

    event.listen(engine, "do_connect", note)
    with pytest.raises(ConnectionAbortedError):
        engine.connect()
    return found


def test_options_of_libpq_reach_asyncpg() -> None:
    """What psycopg understands in an address is handed to asyncpg in the form that it understands."""
    given = arguments_of(
        f"postgresql+psycopg2://app:{SECRET}@db/shop?sslmode=require&application_name=incremental&connect_timeout=3"
    )
    assert given["dsn"] == "postgresql:///?sslmode=require&application_name=incremental"
    assert (given["host"], given["user"], given["password"], given["timeout"]) == ("db", "app", SECRET, 3.0)
    assert "sslmode" not in given


def test_a_socket_and_several_hosts_reach_asyncpg() -> None:
    """A host that is given as an option is one."""
    given = arguments_of("postgresql:///shop?host=/var/run/postgresql")
    assert given["dsn"] == "postgresql:///?host=%2Fvar%2Frun%2Fpostgresql"
    assert "host" not in given


def test_statement_caches_can_be_switched_off() -> None:
    """Behind a pooler that hands every transaction to another server, nothing is kept between two."""
    given = arguments_of("postgresql://app@db/shop?statement_cache_size=0")
    assert (given["statement_cache_size"], given["prepared_statement_cache_size"]) == (0, 0)


def test_connections_are_waited_for_ten_seconds() -> None:
    """A server that does not answer is given up by default."""
    assert arguments_of("postgresql://app@db/shop")["timeout"] == 10
    assert arguments_of("mysql://app@db/shop")["connect_timeout"] == 10


def test_mysql_speaks_utf8_whatever_the_address_says() -> None:
    """Names and errors may hold any character."""
    assert arguments_of("mysql://app@db/shop?charset=latin1")["charset"] == "utf8mb4"


@pytest.mark.parametrize(
    ("options", "verify", "host"),
    [
        ("ssl=true", ssl.CERT_NONE, False),
        ("ssl_mode=REQUIRED", ssl.CERT_NONE, False),
        ("sslmode=require", ssl.CERT_NONE, False),
        ("ssl_mode=VERIFY_CA", ssl.CERT_REQUIRED, False),
        ("sslmode=verify-full", ssl.CERT_REQUIRED, True),
        ("ssl_mode=VERIFY_IDENTITY", ssl.CERT_REQUIRED, True),
        (f"ssl_ca={certifi.where()}", ssl.CERT_REQUIRED, True),
    ],
)
def test_tls_of_mysql(options: str, verify: ssl.VerifyMode, host: bool) -> None:
    """How a server is checked follows the mode, as MySQL or PostgreSQL write it; an authority asks for a check."""
    context = arguments_of(f"mysql://app@db/shop?{options}")["ssl"]
    assert isinstance(context, ssl.SSLContext)
    assert (context.verify_mode, context.check_hostname) == (verify, host)


@pytest.mark.parametrize("options", ["", "?ssl=false", "?sslmode=disable", "?ssl_mode=PREFERRED"])
def test_no_tls_of_mysql(options: str) -> None:
    """Nothing asks for it: nothing is encrypted."""
    assert "ssl" not in arguments_of(f"mysql://app@db/shop{options}")


def test_a_certificate_that_is_not_there() -> None:
    """The error names the file."""
    with pytest.raises(ConfigurationError, match=r"no/such/ca\.pem"):
        make_store("mysql://app@db/shop?ssl_ca=/no/such/ca.pem")


@pytest.mark.parametrize("option", ["connect_timeout=soon", "statement_cache_size=big"])
def test_an_option_that_is_no_number(option: str) -> None:
    """An option that cannot be read is a wrong setting, not a crash."""
    with pytest.raises(ConfigurationError, match=option.partition("=")[0]):
        make_store(f"postgresql://app:{SECRET}@db/shop?{option}")
