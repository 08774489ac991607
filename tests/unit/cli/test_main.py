"""The program itself: help, exit codes and streams of a process."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_incremental
from airflow_provider_incremental import __version__
from airflow_provider_incremental.cli.commands import parse, parser
from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.errors import WatchesAnotherSourceError
from airflow_provider_incremental.core.watermark import Watches, WatermarkKey


@pytest.fixture
def environment(tmp_path):
    """The environment of a process that tests this package, with an Airflow home of its own."""
    home = Path(airflow_provider_incremental.__file__).parents[1]
    return os.environ | {"PYTHONPATH": str(home), "AIRFLOW_HOME": str(tmp_path)}


@pytest.fixture
def program(environment):
    """Run the command line as a process of its own."""

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "airflow_provider_incremental.cli", *arguments]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, check=False)

    return run


def commands():
    """Every command's words and parser."""

    def below(words, command):
        for action in command._subparsers._group_actions if command._subparsers else []:
            for name, sub in action.choices.items():
                yield from below((*words, name), sub)
        yield words, command

    return list(below((), parser()))


@pytest.mark.parametrize(("words", "command"), commands())
def test_help(words, command, capsys):
    """Every command has help that names each argument and says what it does; every action comes with examples."""
    with pytest.raises(SystemExit) as leaving:
        main([*words, "--help"])
    shown = capsys.readouterr().out
    assert leaving.value.code == 0
    assert all(action.help for action in command._actions if action.choices is None or action.option_strings)
    assert command._subparsers or f"examples:\n  airflow-incremental {' '.join(words)}" in shown


@pytest.mark.parametrize("words", [words for words, _ in commands() if words])
def test_examples_parse(words):
    """Each example in the help is right usage."""
    command = dict(commands())[words]
    for line in (command.epilog or "").replace("\\\n", "").splitlines()[1:]:  # a shell joins continued lines
        given = parser().parse_args(shlex.split(line.partition(" > ")[0])[1:])
        assert given.action


def test_remedies_parse():
    """The commands that an error of the domain tells people to run are right usage."""
    watched, given = Watches(source="s3://a", cursor="key"), Watches(source="s3://b", cursor="key")
    with pytest.raises(WatchesAnotherSourceError) as refusal:
        watched.require_same(WatermarkKey("orders", "eu"), given)
    remedies = re.findall(r"`airflow-incremental (.+?)`", str(refusal.value))
    assert [parse(shlex.split(remedy)).action.partition(":")[2] for remedy in remedies] == ["set_position", "rewind"]


def test_version(capsys):
    """The version is the package's."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"airflow-incremental {__version__}\n"


def test_json_alone_on_stdout(program, tmp_path):
    """What Airflow prints while it loads, and what is logged, stays off stdout: a program can read the JSON."""
    done = program("list", "--output", "json", AIRFLOW__LOGGING__LOGGING_LEVEL="DEBUG")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    assert (tmp_path / "incremental.db").is_file()
    assert "one machine only" not in done.stderr  # said where triggers and tasks run, not with every command


def test_errors_on_stderr(program):
    """An error is one line on stderr, with exit code 1 and no traceback."""
    failed = program("show", "orders")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.splitlines()[-1].startswith("airflow-incremental: there is no watermark 'orders'")
    assert "Traceback" not in failed.stderr


def test_closed_pipe(environment):
    """A reader that has seen enough is no error."""
    program = shlex.join([sys.executable, "-m", "airflow_provider_incremental.cli"])
    line = f"{program} db sql --dialect mysql | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, "Traceback" in done.stderr, "BrokenPipe" in done.stderr) == ("0\n", False, False)
