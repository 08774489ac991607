"""What Airflow's api-server mounts of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_MOUNTED = """
from airflow.api_fastapi.app import init_plugins
from fastapi import FastAPI
app = FastAPI()
init_plugins(app)
print(*[route.path for route in app.routes])
"""


@pytest.mark.parametrize(("api", "mounted"), [(None, True), ("True", True), ("False", False), ("perhaps", False)])
def test_the_api_can_be_turned_off(tmp_path: Path, api: str | None, mounted: bool) -> None:
    """It is served unless the option says otherwise; what is neither yes nor no mounts nothing, and is logged."""
    env = os.environ | {"AIRFLOW_HOME": str(tmp_path)} | ({} if api is None else {"AIRFLOW__INCREMENTAL__API": api})
    done = subprocess.run([sys.executable, "-c", _MOUNTED], env=env, capture_output=True, text=True, check=True)
    assert ("/incremental/api" in done.stdout.splitlines()[-1].split()) is mounted
    assert ('check "api" key in "incremental" section' in done.stdout + done.stderr) is (api == "perhaps")
