"""Why Airflow's asset state store holds no watermarks. When one of these fails, look at it anew."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk.execution_time.context import AssetStateStoreAccessor

_HISTORY = """
import json
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.asset import AssetActive, AssetModel
from airflow.state import AssetScope
from airflow.state.metastore import MetastoreBackend
from airflow.utils.session import create_session

store, seen = MetastoreBackend(), {}
with create_session() as session:
    asset = AssetModel(name="orders", uri="orders")
    session.add(asset)
    session.flush()
    active = AssetActive.for_asset(asset)
    session.add(active)
    session.flush()
    scope = AssetScope(asset_id=asset.id)
    store.set(scope, "watermark", "5", session=session)
    first = second = int(store.get(scope, "watermark", session=session))
    store.set(scope, "watermark", str(first + 5), session=session)
    store.set(scope, "watermark", str(second + 1), session=session)
    seen["after two writers"] = store.get(scope, "watermark", session=session)
    session.delete(active)
    session.flush()
    SchedulerJobRunner._cleanup_orphaned_asset_state_store(session=session)
    session.add(AssetActive.for_asset(asset))
    session.flush()
    seen["after a pause"] = store.get(scope, "watermark", session=session)
print(json.dumps(seen))
"""


@pytest.fixture
def airflow_home(tmp_path: Path) -> dict[str, str]:
    """The environment of an Airflow with a database of its own."""
    env = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=250)
    return env


def test_it_loses_what_a_second_writer_overwrites_and_what_a_pause_deletes(airflow_home: dict[str, str]) -> None:
    """The position goes from 10 back to 6 without a word; once no DAG names the asset for a moment, it is gone."""
    command = [sys.executable, "-c", _HISTORY]
    done = subprocess.run(command, env=airflow_home, check=True, capture_output=True, text=True, timeout=100)
    assert json.loads(done.stdout.splitlines()[-1]) == {"after two writers": "6", "after a pause": None}


def test_it_can_compare_and_list_nothing() -> None:
    """Triggers and tasks may get, set, delete and clear, whatever is there."""
    verbs = {"get", "set", "delete", "clear"}
    found = {name for name, _ in inspect.getmembers(AssetStateStoreAccessor) if not name.startswith("_")}
    assert found == verbs | {f"a{verb}" for verb in verbs}
    assert list(inspect.signature(AssetStateStoreAccessor.set).parameters) == ["self", "key", "value"]
