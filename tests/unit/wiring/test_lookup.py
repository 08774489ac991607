"""A connection that is not there: whoever names it, it is said with its id, the parameter and what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_incremental import preflight
from airflow_provider_incremental.core.errors import ConfigurationError, SourceError
from airflow_provider_incremental.sources.s3_source import S3KeySource
from airflow_provider_incremental.sources.sql_arguments import check_sql_arguments
from airflow_provider_incremental.wiring.connections import ConnectionReader, S3ClientFactory, reader_of
from airflow_provider_incremental.wiring.notifications import ConnectionNotifications
from airflow_provider_incremental.wiring.stores import open_store, store_url

_SAYS = r"there is no connection 'nowhere' \({}\): .*airflow connections list.*AIRFLOW_CONN_NOWHERE"


async def _describe() -> None:
    await ConnectionReader(conn_id="nowhere").describe(check_sql_arguments(table="orders", cursor="id"))


async def _listen() -> None:
    await ConnectionNotifications(conn_id="nowhere", channel="orders").open()


@pytest.mark.parametrize("use", [_describe, _listen])
async def test_a_sql_source(use: Callable[[], Awaitable[Any]]) -> None:
    """In the triggerer, at its first poll."""
    with pytest.raises(ConfigurationError, match=_SAYS.format("conn_id")):
        await use()


async def test_a_connection_of_a_type_that_no_provider_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what to install, and nothing of the password."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "abacus://me:s3cr3t@shop/orders")
    reader = ConnectionReader(conn_id="shop")
    with pytest.raises(SourceError, match=r"conn_id='shop' .*'abacus'.*install the provider") as error:
        await reader.describe(check_sql_arguments(table="orders", cursor="id"))
    assert "s3cr3t" not in str(error.value)
    await reader.aclose()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("generic", "conn_id='shop' .*'generic', which has no hook; give it the type of its database"),
        ("duckdb", "'duckdb', which Airflow does not know here .*airflow-provider-duckdb"),
        ("driverless", r"'driverless', whose driver is missing \(No module named 'MySQLdb'\); install it"),
    ],
)
async def test_a_connection_that_cannot_be_used(kind: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is named, instead of a library's own trouble with it."""
    if kind == "driverless":
        monkeypatch.setattr(Connection, "get_hook", lambda _self, **_: _Driverless())
    connection = Connection(conn_id="shop", conn_type=kind, host="here")
    reader = reader_of(connection)
    with pytest.raises(SourceError, match=said):
        await reader.describe(check_sql_arguments(table="orders", cursor="id"))
    await reader.aclose()


class _Driverless:
    """The hook of a provider without its driver."""

    def get_sqlalchemy_engine(self, **_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'MySQLdb'")


async def test_an_s3_source() -> None:
    """It is not taken for one without an access key."""
    source = S3KeySource(bucket="landing", client=S3ClientFactory(aws_conn_id="nowhere"), conn_id="nowhere")
    with pytest.raises(Exception, match=_SAYS.format("aws_conn_id")) as error:
        await source.poll(None, 10, frozenset())
    assert "s3://landing/" in str(error.value)
    assert "access key" not in str(error.value)
    await source.aclose()


async def test_s3_without_the_connection_that_airflow_names_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boto looks for credentials by itself, as every operator does; where it finds none, that is said."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    factory = S3ClientFactory(aws_conn_id="aws_default", region_name="eu-central-1")
    source = S3KeySource(bucket="landing", client=factory, conn_id="aws_default")
    said = r"no credentials were found; make the connection 'aws_default' \(aws_conn_id\)"
    with pytest.raises(Exception, match=said):
        await source.poll(None, 10, frozenset())
    await source.aclose()


async def test_the_store_of_a_triggerer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is named."""
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", "conn:nowhere")
    with pytest.raises(ConfigurationError, match=_SAYS.format(r"\[incremental\] store")):
        async with open_store():
            pytest.fail("opened")


def test_the_store_of_a_command() -> None:
    """The option is named, and the same is said."""
    with pytest.raises(ConfigurationError, match=_SAYS.format("--store")):
        store_url("conn:nowhere", where="--store")


def test_preflight() -> None:
    """Before anything is watched."""
    with pytest.raises(ConfigurationError, match=_SAYS.format("conn_id")):
        preflight("nowhere", table="orders", cursor="id")
