"""The command line on a store in object storage, by the connection and the entry point that the project declares."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.batch import NewBatch
from airflow_provider_incremental.core.store import Selector, WatermarkStore
from airflow_provider_incremental.core.watermark import PollReport, Watches, WatermarkKey
from airflow_provider_incremental.stores import registry
from airflow_provider_incremental.wiring.sync import store_session
from harness.servers import S3Server
from tests.unit.test_provider_info import PROJECT

KEY = WatermarkKey("orders")


@pytest.fixture
def url(s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a store with one watermark."""
    package = tmp_path / "declared-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in PROJECT["entry-points"][registry.GROUP].items()]
    (package / "entry_points.txt").write_text("\n".join([f"[{registry.GROUP}]", *lines, ""]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_OBJECTS", s3_server.airflow_connection())
    bucket = f"command-{uuid4().hex[:12]}"
    s3_server.client().create_bucket(Bucket=bucket)
    url = f"s3://{bucket}/store?aws_conn_id=objects"
    with store_session(url) as session:
        session.run(fill(session.store))
    return url


async def fill(store: WatermarkStore) -> None:
    watermark = await store.register(KEY, Watches("table orders", "id"))
    await store.commit(watermark, 7, [NewBatch(low=None, high=7, items=["a"], count=1)], PollReport(next_poll_in=60))
    await store.subscribe(Selector("orders"), "load", "earliest")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_what_is_there_is_listed_and_shown(url: str, capsys: pytest.CaptureFixture[str]):
    """As from any other store, by the connection of the address."""
    [listed] = json.loads(run(capsys, "list", "--store", url, "--output", "json"))
    assert "orders" in json.dumps(listed)
    assert "load" in run(capsys, "show", "orders", "--store", url)


def test_it_is_changed_by_hand_and_copied(url: str, capsys: pytest.CaptureFixture[str]):
    """A rewind stands in the journal, and everything moves to another store."""
    run(capsys, "rewind", "orders", "--to", "earliest", "--yes", "--reason", "again", "--store", url)
    assert "again" in run(capsys, "journal", "--store", url)
    other = f"{url.partition('?')[0]}-other?aws_conn_id=objects"
    run(capsys, "copy", "--from", url, "--to", other, "--force")
    assert "orders" in run(capsys, "list", "--store", other)


def test_there_are_no_tables_to_make(url: str, capsys: pytest.CaptureFixture[str]):
    """The command says so."""
    assert main(["db", "upgrade", "--store", url]) == 1
    assert "need none" in capsys.readouterr().err
