"""A store of the test's own, and what a consumer finds in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.context import Context

from airflow_provider_incremental.consumers import _run
from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.wiring import actor


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a store of the test's own."""
    upgrade_embedded(tmp_path / "store.db")
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'store.db'}")


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put the test into a task of ``the_dag`` whose run was started by events with these payloads."""

    def enter(*payloads: Any, asset: str = "orders", map_index: int = -1) -> None:
        events = [SimpleNamespace(extra={"from_trigger": True, "payload": payload}) for payload in payloads]
        ti = SimpleNamespace(dag_id="the_dag", run_id="r", task_id="t", map_index=map_index, try_number=1)
        context: Context = {"ti": ti, "triggering_asset_events": _Events({SimpleAsset(asset): events})}
        for reader in (_run, actor):
            monkeypatch.setattr(reader, "current_context", lambda: context)

    return enter


class SimpleAsset:
    """What the context uses as a key: an asset, known by its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Events(dict[Any, Any]):
    pass


@pytest.fixture(autouse=True)
def _nothing_is_left_running() -> Iterator[None]:
    """Every session ends its thread."""
    yield
    assert "incremental-store" not in {thread.name for thread in threading.enumerate()}
