"""Starts, awaits and ends child processes so that nothing outlives the harness.

Every child leads its own process group and works in a directory of its own. A whole family is found by that directory
as well as by parentage, since members may move to another group or lose their parent before they are ended.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import psutil

__all__ = [
    "Deadline",
    "HarnessError",
    "Service",
    "family",
    "free_ports",
    "kill",
    "kill_all",
    "run",
    "serving",
    "spawn",
    "stop",
    "tail",
    "wait_until",
]

T = TypeVar("T")
Process = subprocess.Popen[bytes]

# Below the range that the kernel hands to outgoing connections: no client can take a port before its server does.
_PORTS = range(15_000, 32_000)
_POLL_SECONDS = 0.1
_handed_out: set[int] = set()


class HarnessError(RuntimeError):
    """A server or a component did not do what the harness needs; the message carries its log."""


class Deadline:
    """Counts down on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._end

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())


def free_ports(count: int) -> list[int]:
    """Return distinct TCP ports that nobody listens on and that this process has not handed out before."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        if port not in _handed_out and _can_bind(port):
            _handed_out.add(port)
            found.append(port)
    return found


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_until(
    description: str,
    condition: Callable[[], T],
    timeout: float,
    *,
    poll: float = _POLL_SECONDS,
    explain: Callable[[], str] = str,
) -> T:
    """Ask the condition until its answer is truthy and return that answer.

    :param timeout: seconds after which :class:`HarnessError` is raised, ending with what ``explain`` returns.
    """
    deadline = Deadline(timeout)
    while not (answer := condition()):
        if deadline.expired:
            msg = f"Waited {timeout:.0f} s in vain for: {description}\n{explain()}"
            raise HarnessError(msg)
        time.sleep(min(poll, deadline.remaining))
    return answer


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Process:
    """Start a command as the leader of a new process group, its output appended to the log.

    :param cwd: a directory that only this command and its children work in: it is what they are found by.
    :param user: run as this user of the system, for servers that refuse to run as root.
    """
    identity = {} if user is None else {"user": user, "extra_groups": []}
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=None if env is None else dict(env),
            start_new_session=True,
            **identity,
        )


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    cwd: Path | None = None,
    timeout: float = 120,
) -> str:
    """Run a command to its end and return its standard output; a failure raises with all that it printed."""
    identity = {} if user is None else {"user": user, "extra_groups": []}
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=cwd,
        env=None if env is None else dict(env),
        timeout=timeout,
        check=False,
        **identity,
    )
    output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if done.returncode:
        msg = f"{' '.join(map(str, command))} ended with {done.returncode}:\n{output}{errors}"
        raise HarnessError(msg)
    return output


@contextlib.contextmanager
def serving(
    name: str,
    command: Sequence[str | Path],
    *,
    home: Path,
    ready: Callable[[], bool],
    user: str | None = None,
    ask: signal.Signals | None = signal.SIGTERM,
    timeout: float = 120,
) -> Iterator[Service]:
    """Run a server in its home from when it is ready until the context ends.

    :param ask: the signal that asks it to end; without one it is killed.
    """
    service = Service(name, command, home=home, ready=ready, user=user, ask=ask, timeout=timeout)
    try:
        service.start()
        yield service
    finally:
        service.stop()


class Service:
    """A server that can be ended and started again, in the same home and on the same ports."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        home: Path,
        ready: Callable[[], bool],
        user: str | None,
        ask: signal.Signals | None,
        timeout: float,
    ) -> None:
        self._name = name
        self._command = command
        self._home = home
        self._ready = ready
        self._user = user
        self._ask = ask
        self._timeout = timeout
        self._process: Process | None = None

    def start(self) -> None:
        """Start the server and return when it answers."""
        log = self._home / "server.log"
        process = self._process = spawn(self._command, log=log, cwd=self._home, user=self._user)

        def is_ready() -> bool:
            if process.poll() is not None:
                msg = f"{self._name} ended with {process.returncode} while starting\n{tail(log)}"
                raise HarnessError(msg)
            return self._ready()

        wait_until(f"{self._name} is ready", is_ready, self._timeout, explain=lambda: tail(log))

    def stop(self) -> None:
        """Ask the server to end, and kill what is left of it."""
        process, self._process = self._process, None
        if process is not None:
            stop(process, self._home, ask=self._ask)

    def kill(self) -> None:
        """End the server at once, as a crash of its machine would."""
        process, self._process = self._process, None
        if process is not None:
            kill(process, self._home)


def family(process: Process | None, cwd: Path) -> list[psutil.Process]:
    """Return the process, its descendants, and every other process that works in the directory or below it."""
    found: dict[int, psutil.Process] = {}
    if process is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            leader = psutil.Process(process.pid)
            found = {member.pid: member for member in [leader, *leader.children(recursive=True)]}
    for other in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(other.cwd()).is_relative_to(cwd):
                found[other.pid] = other
    found.pop(os.getpid(), None)
    return list(found.values())


def stop(process: Process, cwd: Path, *, ask: signal.Signals | None = signal.SIGTERM, timeout: float = 15) -> None:
    """Ask the leader to end, and kill whatever of its family is left."""
    if ask is not None and process.poll() is None:
        process.send_signal(ask)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
    kill(process, cwd)


def kill(process: Process, cwd: Path) -> None:
    """End the whole family at once, without asking; returns when all of it is gone."""
    kill_all(lambda: family(process, cwd))
    process.wait()


def kill_all(members: Callable[[], list[psutil.Process]]) -> None:
    """End all processes that are found, and look again until none is."""
    while live := [member for member in members() if _is_live(member)]:
        # Stopped first, so that nobody starts a child between being listed and being killed.
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for member in live:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.send_signal(sign)
        psutil.wait_procs(live, timeout=5)


def _is_live(member: psutil.Process) -> bool:
    try:
        return member.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tail(log: Path, lines: int = 25) -> str:
    """Return the end of a log under its name."""
    text = log.read_text(errors="replace") if log.exists() else "(no log)"
    return "\n".join([f"--- {log.name}", *text.splitlines()[-lines:]])
