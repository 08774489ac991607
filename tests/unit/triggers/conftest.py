"""A store and a source of the test's own; what an older Airflow lacks is not collected there."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.testing.fakes import ListSource
from tests.unit.triggers.list_trigger import ListTrigger

# By what the installed Airflow has, not by its number.
collect_ignore = [] if find_spec("airflow.triggers.shared_stream") else ["test_ack_mode.py", "test_ack_crashes.py"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure a store, and a source, of the test's own."""
    upgrade_embedded(tmp_path / "store.db")
    monkeypatch.setenv("AIRFLOW__INCREMENTAL__STORE", f"sqlite:///{tmp_path / 'store.db'}")
    ListTrigger.source = ListSource()
