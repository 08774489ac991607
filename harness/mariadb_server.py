"""MariaDB from the system's packages, installed where that is allowed and it is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from harness import homes
from harness.databases import PASSWORD, DatabaseServer
from harness.processes import free_ports, run, serving

__all__ = ["ServerMissingError", "given", "running"]

_LOGIN = "incremental"
_INSTALL_TIMEOUT = 600
# Without the packages that would also start a service of the system.
_PACKAGES = ["mariadb-server-core", "mariadb-client-core"]
_OPTIONS = [
    "--bind-address=127.0.0.1",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-buffer-pool-size=64M",
    "--max-connections=300",
    "--character-set-server=utf8mb4",
]


class ServerMissingError(Exception):
    """This machine has no MariaDB and may not install one; the message says how to get one."""


def given(url: str) -> DatabaseServer:
    """Describe the server of an address that the user names."""
    parts = urlsplit(url)
    return DatabaseServer(
        scheme="mysql",
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        database=parts.path.lstrip("/") or "mysql",
    )


@contextmanager
def running() -> Iterator[DatabaseServer]:
    """Run a server until the context ends, then remove every trace of it."""
    _ensure_installed()
    with homes.home("mariadb") as home:
        # A folder of its own: each server deletes the temporary tables that it finds where it starts, and a database is
        # made by a server, too.
        (home / "tmp").mkdir()
        places = [f"--datadir={home / 'data'}", f"--tmpdir={home / 'tmp'}"]
        # The server wants to be told that it is root on purpose.
        identity = ["--user=root"] if os.geteuid() == 0 else []
        install = ["mariadb-install-db", "--no-defaults", *places, "--auth-root-authentication-method=normal"]
        run([*install, "--skip-test-db", *identity], cwd=home)
        (port,) = free_ports(1)
        server = DatabaseServer(
            scheme="mysql", host="127.0.0.1", port=port, user=_LOGIN, password=PASSWORD, database=_LOGIN
        )
        places += [f"--socket={home / 'socket'}", f"--init-file={_first_statements(home)}"]
        command = [_program() or "mariadbd", "--no-defaults", f"--port={port}", *places, *_OPTIONS, *identity]
        with serving("MariaDB", command, home=home, ready=server.answers):
            yield server


def _first_statements(home: Path) -> Path:
    statements = home / "first.sql"
    statements.write_text(
        f"CREATE DATABASE {_LOGIN};\n"
        f"CREATE USER {_LOGIN}@'%' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO {_LOGIN}@'%' WITH GRANT OPTION;\n"
    )
    return statements


def _program() -> str | None:
    # Debian keeps servers out of an ordinary user's PATH.
    return shutil.which("mariadbd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def _ensure_installed() -> None:
    if _is_installed():
        return
    allowed = os.environ.get("CI") == "true" or os.environ.get("HARNESS_INSTALL") == "1"
    if not (allowed and os.geteuid() == 0 and shutil.which("apt-get")):
        msg = (
            "MariaDB is not installed: `apt-get install mariadb-server` (or the like), "
            "or set INCREMENTAL_TEST_MYSQL_URL=mysql://user:password@host:port/database"
        )
        raise ServerMissingError(msg)
    # Several processes run tests at once, and apt-get refuses to work beside another.
    with Path(tempfile.gettempdir(), "incremental-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed():
            _install()


def _is_installed() -> bool:
    return bool(_program() and shutil.which("mariadb-install-db"))


def _install() -> None:
    print("installing MariaDB with apt-get ...", file=sys.stderr, flush=True)
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], env=quiet, timeout=_INSTALL_TIMEOUT)
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *_PACKAGES]
    run(install, env=quiet, timeout=_INSTALL_TIMEOUT)
