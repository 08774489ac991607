"""copy: what it prints, what it refuses, and that it can be repeated."""

from __future__ import annotations

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental.cli import copying
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.served import serving
from tests.unit.cli.conftest import CURSOR, Store


@pytest.fixture
def other(empty_store: bytes, tmp_path: Path) -> Store:
    """A second store without watermarks and with another identity."""
    path = tmp_path / "other.db"
    path.write_bytes(empty_store)
    store = Store(f"sqlite:///{path}")

    async def rename(opened) -> None:
        async def work(connection) -> None:
            await connection.exec_driver_sql("UPDATE asset_watermark_store SET identity = 'the other store'")

        await opened.database.write(work, repeatable=True)

    store(rename)
    return store


@pytest.fixture
def full(store: Store) -> Store:
    """A store with two watermarks and a consumer."""
    store.add("orders", cursor=CURSOR, batches=3)
    store.add("orders", "eu", cursor=7)
    store.consume("orders", "load", 2)
    return store


@pytest.fixture
def copy(run, full: Store, other: Store):
    """Copies the full store to the other one."""

    def command(*arguments: str, source: str = full.url, target: str = other.url):
        return run("copy", "--from", source, "--to", target, *arguments, url=None)

    return command


def test_copies_and_says_what(copy, full: Store, other: Store) -> None:
    """A line a watermark with its position and its counts, and what to do next; the journal tells who did it."""
    said = copy("--force", "--reason", "outgrown")
    assert said.code == 0
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[1][:2] == ["orders", "copied"]
    assert lines[1][-7:] == ["3", "3", "1", "2", "0", "the", "same"]
    assert lines[2][:4] == ["orders/eu", "copied", "7", "1"]
    assert "2 copied." in said.out
    assert "Set [incremental] store" in said.out
    assert other.load("orders") == full.load("orders")
    assert other.pending("orders", "load") == [3]
    (entry, _) = other(lambda store: store.journal())
    assert (entry.operation, entry.why) == ("copy", "outgrown")


def test_a_second_time_changes_nothing(copy) -> None:
    """What is there already is compared and counted, and all is well."""
    copy("--force")
    said = copy("--force", "--output", "json")
    assert said.code == 0
    assert [each["result"] for each in said.json] == ["there already"] * 2
    assert said.json[0]["source"] == said.json[0]["target"]
    assert said.json[0]["source"] == {
        "position": '["2026-01-31T12:00:00+00:00", 42]',
        "version": 3,
        "batches": 3,
        "consumers": 1,
        "claims": 2,
        "memory": 0,
        "digest": said.json[0]["target"]["digest"],
    }


def test_a_dry_run_writes_nothing(copy, other: Store) -> None:
    """It reads all, and says what would be copied."""
    said = copy("--dry-run")
    assert said.code == 0
    assert "2 to copy." in said.out
    assert "the real copy would refuse, since the store is in use:\n  orders: it was polled lately" in said.err
    assert other(lambda store: store.list_watermarks()) == []


def test_what_differs_there_is_left_alone(copy, other: Store) -> None:
    """It is shown with what the other store has, the remedy, and an exit status of 1; the rest is copied."""
    other.add("orders", cursor=CURSOR)
    said = copy("--force")
    assert said.code == 1
    assert "1 differs, 1 copied." in said.out
    assert "Do not set [incremental] store to the new store before all of them are there" in said.out
    assert "version 1, 1/0/0/0, at" in copy("--force", "--wide").out
    assert "airflow-incremental forget WATERMARK --store STORE" in said.out
    assert other.load("orders").version == 1
    assert other.load("orders", "eu").version == 1


def test_what_only_a_newer_release_can_read_keeps_nothing_else_back(copy, full: Store, other: Store) -> None:
    """It fails with its row and the remedy; the others are copied."""

    async def spoil(store) -> None:
        async def work(connection) -> None:
            await connection.exec_driver_sql(
                "UPDATE asset_watermarks SET cursor = '{\"$vector\": 1}' WHERE namespace = 'eu'"
            )
            statement = "UPDATE asset_watermark_batches SET items = '[{\"$vector\": 1}]' WHERE seq = 2"
            await connection.exec_driver_sql(statement)

        await store.database.write(work, repeatable=True)

    full.add("returns", cursor=1)
    full(spoil)
    assert "orders: it was polled lately" in copy().err
    said = copy("--force")
    assert (said.code, said.err) == (1, "")
    assert "2 failed, 1 copied." in said.out
    assert "orders: an item of batch 2 of watermark orders" in said.out
    assert "orders/eu: the cursor of watermark orders/eu" in said.out
    assert "upgrade airflow-provider-incremental" in said.out
    assert [str(each.key) for each in other(lambda store: store.list_watermarks())] == ["returns"]


async def test_a_copy_from_an_api_says_that_a_token_may_not_see_all(
    full: Store, other: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it does not see is not in the table either."""
    store = SqlStore(url=full.url)
    async with serving(store, tmp_path) as served:
        token = served.tokens.add("eu", namespaces=["eu"])
        url = served.url.replace(served.url.split("://:")[1].split("@")[0], token)
        code = await asyncio.to_thread(main, ["copy", "--from", url, "--to", other.url, "--force"])
    await store.aclose()
    said = capsys.readouterr()
    assert (code, "1 copied" in said.out, "what its token may see is copied" in said.err) == (0, True, True)


def test_an_interrupted_copy_says_how_to_go_on(copy, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has done so far is counted; the same command does the rest."""
    one = copying.copy
    # Whoever started the tests in the background may have had it ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    async def interrupted(*given: Any, **named: Any) -> Any:
        if other(lambda store: store.list_watermarks()):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        return await one(*given, **named)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(copying, "copy", interrupted)
            said = copy("--force")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (said.code, "interrupted after 1 of 2 watermarks; repeat this" in said.err) == (130, True)
    assert copy("--force").code == 0
    assert len(other(lambda store: store.list_watermarks())) == 2


def test_a_copy_whose_store_goes_away_says_how_to_go_on(copy, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the error, as one that is interrupted."""
    one = copying.copy

    async def gone(*given: Any, **named: Any) -> Any:
        if other(lambda store: store.list_watermarks()):
            raise StoreUnavailableError("the store is gone")
        return await one(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(copying, "copy", gone)
        said = copy("--force")
    assert (said.code, "interrupted after 1 of 2 watermarks; repeat this" in said.err) == (1, True)
    assert "airflow-incremental: the store is gone" in said.err
    assert copy("--force").code == 0


def test_a_store_in_use_is_not_copied(copy, full: Store, other: Store) -> None:
    """Watermarks that are polled, and batches in work, are named with what to stop."""
    full.report("orders", next_poll_in=3600.0)

    async def hold(store) -> None:
        await store.claim(Selector("orders"), "load", "worker", 600)

    full(hold)
    said = copy()
    assert said.code == 1
    assert "orders: it was polled lately; with no poll until" in said.err
    assert "orders: load has 1 of its batches in work, until" in said.err
    assert "Stop the triggerers" in said.err
    assert other(lambda store: store.list_watermarks()) == []
    assert copy("--force").code == 0


def test_a_store_at_rest_needs_no_force(run, store: Store, other: Store) -> None:
    """A watermark that nobody ever polled, or not for long, is copied without a word."""
    store.report_long_ago("orders")
    said = run("copy", "--from", store.url, "--to", other.url, url=None)
    assert (said.code, said.out) == (0, "there are no watermarks to copy\n")


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_store_in_memory_is_refused(copy, place: str) -> None:
    """It would be empty, or gone with this process."""
    said = copy("--force", **{place: "memory://"})
    assert said.code == 1
    assert "a store in memory ends with its process" in said.err


def test_the_same_store_twice_is_refused(copy, full: Store, tmp_path: Path) -> None:
    """By its words, and by its identity when it has two names."""
    assert copy(target=full.url).code == 2
    linked = tmp_path / "linked.db"
    shutil.copy(full.url.removeprefix("sqlite:///"), linked)
    said = copy(target=f"sqlite:///{linked}")
    assert said.code == 1
    assert "the same store" in said.err


def test_one_store_is_the_configured_one(run, full: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is not given; neither given is wrong usage."""
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", full.url)
    assert run("copy", "--to", other.url, "--force", url=None).code == 0
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", other.url)
    assert "2 there already." in run("copy", "--from", full.url, "--force", url=None).out
    assert run("copy", url=None).code == 2
