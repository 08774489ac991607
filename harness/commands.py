"""What `dev` can do: demo, test, chaos, check and bench, each in an environment that holds this project's wheel.

Needs nothing but the standard library: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from harness.environment import scrubbed
from harness.environments import AIRFLOW_VERSIONS, DEFAULT_AIRFLOW, ROOT, DevError, build_wheel, prepare, say

__all__ = ["main"]

_RINGS = [["-m", "not acceptance", "-n", "3", "--dist", "loadfile"], ["-m", "acceptance"]]
_SOURCES = ("src", "tests", "harness", "example_dags", "example_stores", "benchmarks", "dev")


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status."""
    options, rest = _parser().parse_known_args(arguments)
    if rest and options.command not in ("test", "chaos"):
        _parser().error(f"unknown arguments: {' '.join(rest)}")
    try:
        return _run(options, rest)
    except DevError as error:
        say(f"FAILED: {error}")
        return 1


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    if options.command == "demo":
        _become(["-m", "harness.demo", *(["--serve"] if options.serve else [])])
    if options.command == "test":
        return test(options.airflow, rest)
    if options.command == "chaos":
        _become(["-m", "harness.chaos", "--json", str(options.json.absolute()), *rest], airflow=options.airflow)
    if options.command == "bench":
        _become(["-m", f"benchmarks.{options.name}", "--json", str(options.json.absolute())])
    return check()


def _become(arguments: list[str], *, airflow: str = DEFAULT_AIRFLOW) -> NoReturn:
    """Replace this process by the environment's Python, so that signals and exit status need no relaying."""
    python, variables = _inside(airflow)
    os.chdir(ROOT)
    os.execve(python, [python, *arguments], variables)


def _inside(airflow: str) -> tuple[str, dict[str, str]]:
    """Return the Python of an environment, and the variables in which it runs."""
    environment = prepare(airflow)
    variables = scrubbed(os.environ)
    variables["PATH"] = f"{environment.binaries}{os.pathsep}{variables.get('PATH', os.defpath)}"
    return str(environment.python), variables


def test(airflow: str, arguments: list[str]) -> int:
    """Run the tests that the arguments name; without any all of them, in three processes but for a real Airflow's."""
    python, variables = _inside(airflow)
    # Tests may install the one server that PyPI does not have, where they are root.
    variables["HARNESS_INSTALL"] = "1"
    rings = [arguments] if arguments else _RINGS
    ends = [subprocess.run([python, "-m", "pytest", *ring], cwd=ROOT, env=variables, check=False) for ring in rings]
    return max(abs(end.returncode) for end in ends)


def check() -> int:
    """Run all gates, each of them even if an earlier one has failed."""
    binaries = prepare().binaries
    sources = [name for name in _SOURCES if (ROOT / name).exists()]
    gates: dict[str, list[str | Path]] = {
        "ruff check": [binaries / "ruff", "check", *sources],
        "ruff format": [binaries / "ruff", "format", "--check", *sources],
        "mypy": [binaries / "mypy"],
        "import-linter": [binaries / "lint-imports"],
        "budgets": [binaries / "python", "-m", "harness.budgets"],
    }
    failed = [name for name, command in gates.items() if not _passes(name, command)]
    build_wheel()
    say(f"FAILED: {', '.join(failed)}" if failed else "all gates passed")
    return min(len(failed), 1)


def _passes(name: str, command: list[str | Path]) -> bool:
    say(f"{name} ...")
    start = time.monotonic()
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env=scrubbed(os.environ), check=False)
    say(f"{name}: {'FAILED' if done.returncode else 'passed'} in {time.monotonic() - start:.1f} s")
    return done.returncode == 0


def _benchmarks() -> list[str]:
    """Return the modules of benchmarks/ that write figures into the file they are given."""
    modules = (ROOT / "benchmarks").glob("*.py")
    return sorted(module.stem for module in modules if "= report.json_file(" in module.read_text())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="watch objects and rows become finished DAG runs on a real Airflow")
    demo.add_argument("--serve", action="store_true", help="keep it running until interrupted")
    test = commands.add_parser("test", help="run the tests; further arguments go to pytest")
    test.add_argument("--airflow", choices=list(AIRFLOW_VERSIONS), default=DEFAULT_AIRFLOW, help="the release to test")
    chaos = commands.add_parser("chaos", help="break a real Airflow all the time, and account for every item")
    chaos.add_argument(
        "--airflow", choices=list(AIRFLOW_VERSIONS), default=DEFAULT_AIRFLOW, help="the release to break"
    )
    chaos.add_argument("--json", metavar="FILE", type=Path, required=True, help="where the figures go")
    chaos.epilog = "--minutes N, --seed S, --only KIND and others go on to the run: see harness/chaos.py"
    commands.add_parser("check", help="run the gates: lint, format, types, rooms, budgets, wheel")
    bench = commands.add_parser("bench", help="run a benchmark")
    bench.add_argument("name", choices=_benchmarks(), help="what to measure")
    bench.add_argument("--json", metavar="FILE", type=Path, required=True, help="where its figures go")
    return parser
