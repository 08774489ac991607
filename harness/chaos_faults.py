"""The faults of a chaos run: what each kind does, and how it is undone.

A kind hits a target, for so many seconds or in an instant. None of them says what may come of it.
"""

from __future__ import annotations

import datetime as dt
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from harness.chaos_journal import OpenJournal
from harness.chaos_stage import CONSUMERS, Stage
from harness.processes import Deadline, HarnessError, spawn

__all__ = ["KINDS", "STORE_KINDS", "Blow", "Kind", "Scene"]


_TASK_COMES_WITHIN = 4.0


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What a fault may look at and touch."""

    stage: Stage
    journal: OpenJournal
    chance: random.Random


@dataclass(frozen=True, kw_only=True)
class Blow:
    """A fault that has begun: it lasts so many seconds, and is undone then."""

    seconds: float = 0.0
    undo: Callable[[], object] = lambda: None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault.

    :param targets: what it can hit; a target is hit by one fault at a time.
    :param weight: how often it comes, compared with others.
    :param rest: seconds in which the target is left alone afterwards, so that something happens between two faults.
    :param strike: begins it; None when there is nothing to hit at present.
    """

    name: str
    targets: Callable[[Stage], Sequence[str]]
    strike: Callable[[Scene, str], Blow | None]
    weight: int = 1
    rest: float = 5.0


def _kill_component(scene: Scene, name: str) -> Blow:
    scene.stage.airflow.kill_component(name)
    scene.stage.airflow.start_component(name)
    return Blow()


def _kill_runner(scene: Scene, name: str) -> Blow | None:
    """Kill the process in which triggers run, and leave the triggerer to find out."""
    leader, *others = scene.stage.airflow.members(name)
    runners = [member for member in others if _is_runner(leader, member)]
    if not runners:
        return None
    with suppress(psutil.NoSuchProcess):
        runners[0].kill()
    return Blow(note=f"pid {runners[0].pid}")


def _is_runner(leader: psutil.Process, member: psutil.Process) -> bool:
    """Whether a process is the triggerer's runner: its log server is the other child, and listens."""
    with suppress(psutil.Error):
        listens = any(each.status == psutil.CONN_LISTEN for each in member.net_connections("tcp"))
        return member.ppid() == leader.pid and not listens and not member.children()
    return False


def _kill_task(scene: Scene, _: str) -> Blow | None:
    """Kill the process of a task that holds a batch, as soon as there is one."""
    deadline = Deadline(_TASK_COMES_WITHIN)
    while not (holders := scene.journal.holders()):
        if deadline.expired:
            return None
        time.sleep(0.05)
    holder = scene.chance.choice(holders)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(holder.partition(".")[0])).kill()
    return Blow(note=holder)


def _stop_triggerer(scene: Scene, name: str) -> Blow:
    """Stop all processes of a triggerer for longer than its heartbeat may stay out, then let them go on."""
    members = scene.stage.airflow.members(name)
    _signal(members, signal.SIGSTOP)
    return Blow(seconds=scene.chance.uniform(8, 15), undo=lambda: _signal(members, signal.SIGCONT))


def _stop_supervisor(scene: Scene, name: str) -> Blow:
    """Stop the part of a triggerer that speaks for it, so that another takes over; its triggers go on all the time."""
    leader = scene.stage.airflow.members(name)[:1]
    _signal(leader, signal.SIGSTOP)
    return Blow(seconds=scene.chance.uniform(12, 30), undo=lambda: _signal(leader, signal.SIGCONT))


def _signal(members: Sequence[psutil.Process], sign: signal.Signals) -> None:
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(sign)


def _restart(scene: Scene, name: str) -> Blow:
    """Shut a server down, or let it crash, and start it again a little later."""
    service = scene.stage.backends[name].service
    crash = scene.chance.random() < 0.5
    service.kill() if crash else service.stop()
    return Blow(seconds=scene.chance.uniform(0, 5), undo=service.start, note="crash" if crash else "shutdown")


def _cut(scene: Scene, name: str) -> Blow:
    network = scene.stage.backends[name].network
    network.cut()
    return Blow(seconds=scene.chance.uniform(0, 6), undo=network.mend)


def _hang(scene: Scene, name: str) -> Blow:
    network = scene.stage.backends[name].network
    network.hang()
    return Blow(seconds=scene.chance.uniform(2, 12), undo=network.mend)


def _slow(scene: Scene, name: str) -> Blow:
    network = scene.stage.backends[name].network
    seconds = scene.chance.uniform(0.05, 0.4)
    network.slow(seconds)
    return Blow(seconds=scene.chance.uniform(4, 10), undo=network.mend, note=f"{seconds:.2f} s")


def _pause(scene: Scene, name: str) -> Blow | None:
    airflow, dag_id = scene.stage.airflow, name.removeprefix("DAG ")
    try:
        airflow.pause(dag_id)
    except (HarnessError, OSError):
        return None
    return Blow(seconds=scene.chance.uniform(3, 15), undo=lambda: airflow.unpause(dag_id))


def _edit(scene: Scene, _: str) -> Blow:
    scene.stage.edit_dags()
    return Blow(note=f"edit {scene.stage.edits}")


def _clean(scene: Scene, _: str) -> Blow:
    """Let Airflow delete everything older than two minutes from its database."""
    airflow = scene.stage.airflow
    before = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=2)).isoformat()
    command = [airflow.binaries / "airflow", "db", "clean", "--clean-before-timestamp", before, "--yes"]
    cwd = airflow.home / "components" / "clean"
    cwd.mkdir(parents=True, exist_ok=True)
    process = spawn([*command, "--skip-archive"], log=airflow.log("db-clean"), cwd=cwd, env=airflow.env)
    return Blow(seconds=10, undo=lambda: process.wait(120))


def _backends(stage: Stage) -> list[str]:
    return list(stage.backends)


def _only(target: str) -> Callable[[Stage], list[str]]:
    return lambda _: [target]


def _triggerers(stage: Stage) -> list[str]:
    return stage.triggerers


def _dags(_: Stage) -> list[str]:
    return [f"DAG {name}" for name in CONSUMERS]


KINDS = (
    Kind(name="kill a triggerer", targets=_triggerers, strike=_kill_component, weight=5, rest=20),
    Kind(name="kill a trigger runner", targets=_triggerers, strike=_kill_runner, weight=4, rest=20),
    Kind(name="kill a task", targets=_only("tasks"), strike=_kill_task, weight=12, rest=2),
    Kind(name="kill the scheduler", targets=_only("scheduler"), strike=_kill_component, weight=2, rest=60),
    Kind(name="kill the DAG processor", targets=_only("dag-processor"), strike=_kill_component, weight=2, rest=30),
    Kind(name="stop a triggerer, and go on", targets=_triggerers, strike=_stop_triggerer, weight=4, rest=15),
    Kind(name="split brain", targets=_triggerers, strike=_stop_supervisor, weight=3, rest=15),
    Kind(name="restart", targets=_backends, strike=_restart, weight=5, rest=10),
    Kind(name="cut the network", targets=_backends, strike=_cut, weight=6, rest=5),
    Kind(name="hang the network", targets=_backends, strike=_hang, weight=3, rest=10),
    Kind(name="slow the network", targets=_backends, strike=_slow, weight=4, rest=5),
    Kind(name="pause a DAG", targets=_dags, strike=_pause, weight=4, rest=15),
    Kind(name="edit the DAG file", targets=_only("DAG file"), strike=_edit, weight=2, rest=30),
    Kind(name="airflow db clean", targets=_only("metadata"), strike=_clean, weight=1, rest=90),
)
STORE_KINDS = frozenset({"restart", "cut the network", "hang the network", "slow the network"})
"""Kinds that, where the store is their target, may cut a living consumer off from its lease."""
