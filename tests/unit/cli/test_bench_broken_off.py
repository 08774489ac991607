"""A benchmark that does not come to its end: it leaves nothing behind, or says what."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_incremental.cli import bench
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import StoreUnavailableError
from airflow_provider_incremental.stores.sql.store import SqlStore
from tests.unit.cli.conftest import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store in a file."""
    monkeypatch.setattr(bench, "_PAGES", ())
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    store = Store(f"sqlite:///{tmp_path}/store.db")
    main(["db", "upgrade", "--store", store.url])
    return store


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Whoever started the tests in the background may have had interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def left(store: Store) -> list[str]:
    return [str(each.key) for each in store(lambda each: each.list_watermarks())]


def in_the_third_cycle(monkeypatch: pytest.MonkeyPatch, happens) -> None:
    """Let something happen instead of the third confirmation."""
    confirm, calls = SqlStore.confirm, []

    async def confirming(self, *arguments):
        calls.append(arguments)
        await (happens() if len(calls) == 3 else confirm(self, *arguments))

    monkeypatch.setattr(SqlStore, "confirm", confirming)


async def interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()


async def gone(*_) -> None:
    raise StoreUnavailableError("the store is gone")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("mode", ["direct", "api"])
def test_an_interrupted_benchmark_leaves_nothing(store, monkeypatch, capsys, mode):
    """Its watermarks are deleted, as after a whole one."""
    in_the_third_cycle(monkeypatch, interrupted)
    assert main(["bench", "--mode", mode, "--store", store.url, "--repeat", "5"]) == 130
    assert left(store) == []
    assert "could not be deleted" not in capsys.readouterr().err


def test_a_benchmark_whose_store_goes_away_names_what_it_left(store, monkeypatch, capsys):
    """Beside the error, with the command that deletes it."""
    in_the_third_cycle(monkeypatch, gone)
    monkeypatch.setattr(SqlStore, "forget", gone)
    assert main(["bench", "--mode", "direct", "--store", store.url, "--repeat", "5"]) == 1
    said = capsys.readouterr().err
    assert "airflow-incremental: the store is gone" in said
    (name,) = left(store)
    assert f"airflow-incremental forget '{name}'" in said
