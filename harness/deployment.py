"""A real Airflow for a test or the demo: database, api-server, scheduler, DAG processor and triggerer.

Everything is told by environment, every port is a free one, and each component leads a process group and works in a
directory of its own, so that one can be killed without asking while the others go on.
"""

from __future__ import annotations

import re
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import psutil

from harness import homes
from harness.processes import (
    HarnessError,
    Process,
    family,
    free_ports,
    kill,
    kill_all,
    run,
    spawn,
    stop,
    tail,
    wait_until,
)
from harness.rest import RestClient
from harness.settings import airflow_environment

__all__ = ["COMPONENTS", "AirflowDeployment"]

T = TypeVar("T")

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_COPY = re.compile(r"-\d+$")
_START_TIMEOUT = 180
_FINISHED = {"success", "failed"}


class AirflowDeployment:
    """One Airflow with a home, a DAG folder and ports of its own; a context manager that starts and stops it.

    :param metadata_url: ``postgresql://`` address of an empty database, which Airflow makes its tables in.
    :param dags: the DAG folder; an empty one in the home when not given.
    :param binaries: the ``bin`` of the environment whose Airflow is run.
    :param environment: more variables for every process, such as ``AIRFLOW_CONN_*``; they win.
    :param keep_home: leave the home, with its logs, behind.
    :param of_component: variables for the processes of single components only, by name.
    :param triggerers: how many of them; the second one is the component ``triggerer-2``.
    """

    def __init__(
        self,
        metadata_url: str,
        *,
        dags: Path | None = None,
        binaries: Path | None = None,
        environment: Mapping[str, str] | None = None,
        of_component: Mapping[str, Mapping[str, str]] | None = None,
        keep_home: bool = False,
        triggerers: int = 1,
    ) -> None:
        self.home = homes.new_home("airflow")
        self.dags = dags or self.home / "dags"
        self.binaries = binaries or Path(sys.prefix, "bin")
        self.ports = dict(zip(("api", "trigger_log", "worker_log"), free_ports(3), strict=True))
        self.env = airflow_environment(
            home=self.home, dags=self.dags, binaries=self.binaries, metadata_url=metadata_url, ports=self.ports
        ) | dict(environment or {})
        self.rest = RestClient("127.0.0.1", self.ports["api"])
        self.components = (*COMPONENTS, *(f"triggerer-{number}" for number in range(2, triggerers + 1)))
        self._log_ports = dict(zip(self.components[len(COMPONENTS) :], free_ports(triggerers - 1), strict=True))
        self._of_component = of_component or {}
        self._keep_home = keep_home
        self._running: dict[str, Process] = {}
        self.dags.mkdir(exist_ok=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the user interface."""
        return f"http://127.0.0.1:{self.ports['api']}"

    def start(self) -> None:
        """Make the tables, start all components and return when each of them is healthy."""
        self.cli("db", "migrate", timeout=_START_TIMEOUT)
        for name in self.components:
            self.start_component(name)
        self.wait_for("the api-server answers", self.rest.is_up, timeout=_START_TIMEOUT)
        self.wait_for("all components are healthy", self._is_healthy, timeout=_START_TIMEOUT)

    def _is_healthy(self) -> bool:
        health = self.rest.get("/api/v2/monitor/health")
        return all(part["status"] == "healthy" for part in health.values())

    def stop(self) -> None:
        """End all components and remove the home."""
        leaders = list(self._running.values())
        kill_all(lambda: [member for leader in [*leaders, None] for member in family(leader, self.home)])
        for leader in leaders:
            leader.wait()
        self._running.clear()
        homes.remove_home(self.home, keep=self._keep_home)

    def start_component(self, name: str) -> None:
        """Start a component that is not running."""
        if name in self._running:
            msg = f"{name} is running already"
            raise HarnessError(msg)
        cwd = self._cwd(name)
        cwd.mkdir(parents=True, exist_ok=True)
        env = self.env | dict(self._of_component.get(name, {}))
        if name in self._log_ports:
            env = env | {"AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self._log_ports[name])}
        command = [self.binaries / "airflow", _COPY.sub("", name)]
        self._running[name] = spawn(command, log=self.log(name), cwd=cwd, env=env)

    def kill_component(self, name: str) -> None:
        """End a component and all processes that it started by SIGKILL, as a power cut would."""
        kill(self._running.pop(name), self._cwd(name))

    def stop_component(self, name: str, timeout: float = 30) -> None:
        """Ask a component to end, as a deployment does on an upgrade."""
        stop(self._running.pop(name), self._cwd(name), timeout=timeout)

    def restart_ended(self) -> list[str]:
        """Start again every component that has ended by itself, as a service manager does, and return their names."""
        ended = [name for name, process in self._running.items() if process.poll() is not None]
        for name in ended:
            self.kill_component(name)
            self.start_component(name)
        return ended

    def members(self, name: str) -> list[psutil.Process]:
        """Return the processes of a running component, its leader first."""
        return family(self._running[name], self._cwd(name))

    def log(self, name: str) -> Path:
        """Return the file that a component's output goes to."""
        return self.home / f"{name}.log"

    def _cwd(self, name: str) -> Path:
        return self.home / "components" / name

    def cli(self, *arguments: str, timeout: float = 120) -> str:
        """Run ``airflow`` with these arguments in this deployment and return what it printed."""
        return self.program("airflow", *arguments, timeout=timeout)

    def program(self, name: str, *arguments: str, timeout: float = 120) -> str:
        """Run a program of the environment, such as ``airflow-incremental``, in this deployment."""
        return run([self.binaries / name, *arguments], env=self.env, cwd=self.home, timeout=timeout)

    def wait_for(self, description: str, condition: Callable[[], T], timeout: float = 60) -> T:
        """Return the first truthy answer; fail with the logs when time is up or a component has ended by itself."""

        def answer() -> T:
            for name, process in self._running.items():
                if process.poll() is not None:
                    msg = f"{name} ended with {process.returncode}, while waiting for: {description}\n{self.logs()}"
                    raise HarnessError(msg)
            return condition()

        return wait_until(description, answer, timeout, poll=0.3, explain=self.logs)

    def logs(self) -> str:
        """Return the ends of all logs and the errors of the DAG files."""
        parts = [tail(self.log(name)) for name in self.components]
        if "api-server" in self._running and self.rest.is_up():
            parts += [f"--- {error['filename']}\n{error['stack_trace']}" for error in self.import_errors()]
        return "\n".join(parts)

    def import_errors(self) -> list[dict[str, Any]]:
        """Return why DAG files could not be parsed."""
        return self.rest.pages("/api/v2/importErrors", "import_errors")

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """Return a DAG, or nothing while it has not been parsed."""
        found = self.rest.get("/api/v2/dags", dag_id_pattern=dag_id, limit=100)["dags"]
        return next((dag for dag in found if dag["dag_id"] == dag_id), None)

    def unpause(self, dag_id: str, timeout: float = 90) -> None:
        """Wait until a DAG is known, let it run, and have its file parsed again so that its watchers start soon."""
        dag = self.wait_for(f"DAG {dag_id} is parsed", lambda: self.dag(dag_id), timeout)
        self.rest.request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        self.rest.request("PUT", f"/api/v2/parseDagFile/{dag['file_token']}")

    def pause(self, dag_id: str) -> None:
        """Keep a DAG from running."""
        self.rest.request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": True})

    def trigger_dag(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Start a run of a DAG by hand and return its id."""
        body = {"logical_date": None, "conf": conf or {}}
        run_id: str = self.rest.request("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"]
        return run_id

    def dag_runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, oldest first."""
        return self.rest.pages(f"/api/v2/dags/{dag_id}/dagRuns", "dag_runs", order_by="id")

    def finished_runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG that have succeeded or failed, oldest first."""
        return [dag_run for dag_run in self.dag_runs(dag_id) if dag_run["state"] in _FINISHED]

    def asset_events(self, asset: str) -> list[dict[str, Any]]:
        """Return the events of the asset of this name, oldest first."""
        assets = self.rest.pages("/api/v2/assets", "assets", name_pattern=asset)
        ids = [found["id"] for found in assets if found["name"] == asset]
        if not ids:
            return []
        return self.rest.pages("/api/v2/assets/events", "asset_events", asset_id=ids[0], order_by="timestamp")

    def task_lines(self, dag_id: str, run_id: str) -> list[str]:
        """Return what the last attempts of all tasks of a run have logged, one event a line."""
        dag_run = f"/api/v2/dags/{dag_id}/dagRuns/{urllib.parse.quote(run_id, safe='')}"
        lines: list[str] = []
        for task in self.rest.pages(f"{dag_run}/taskInstances", "task_instances"):
            address = f"{dag_run}/taskInstances/{task['task_id']}/logs/{task['try_number']}"
            log = self.rest.get(address, map_index=task["map_index"], full_content="true")
            lines += [entry if isinstance(entry, str) else str(entry["event"]) for entry in log["content"]]
        return lines
