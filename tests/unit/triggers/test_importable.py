"""A trigger class in a DAG file: refused when it is parsed, where the triggerer would look for it in vain."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
from airflow.utils.file import get_unique_dag_module_name

from airflow_provider_incremental.core.errors import ConfigurationError

_DAG_FILE = """
from airflow_provider_incremental import IncrementalTrigger
from airflow_provider_incremental.testing.fakes import ListSource

class OwnTrigger(IncrementalTrigger):
    def create_source(self):
        return ListSource()

def made():
    class LocalTrigger(OwnTrigger):
        pass
    return LocalTrigger

TRIGGER = {made}(asset_name="own")
"""


@pytest.fixture
def parse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Load a DAG file as a DAG processor does: by its path, its bundle's folder on the process's own path."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    loaded: list[str] = []

    def load(trigger: str = "OwnTrigger", name: str = "watched_list.py") -> ModuleType:
        file = tmp_path / name
        file.write_text(_DAG_FILE.format(made=trigger))
        spec = spec_from_file_location(get_unique_dag_module_name(str(file)), file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[spec.name] = module_from_spec(spec)
        loaded.append(spec.name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]


def test_a_class_that_only_the_dag_processor_finds_is_refused(parse: Callable[..., ModuleType], tmp_path: Path) -> None:
    """The message names the file, what the triggerer looks for, and where to put the class."""
    with pytest.raises(ConfigurationError) as refusal:
        parse()
    for part in (
        str(tmp_path / "watched_list.py"),
        "watched_list.OwnTrigger",
        "plugins folder",
        f"PYTHONPATH={tmp_path}",
    ):
        assert part in str(refusal.value)


def test_a_class_on_the_path_of_all_processes_is_fine(
    parse: Callable[..., ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH names the folder."""
    monkeypatch.setenv("PYTHONPATH", f"/nowhere:{tmp_path}")
    assert parse().TRIGGER.serialize()[0] == "watched_list.OwnTrigger"


def test_another_module_of_the_same_name_is_not_the_class(
    parse: Callable[..., ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The triggerer would import that one, and not find the class in it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "watched_list.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), *sys.path])
    with pytest.raises(ConfigurationError, match=r"watched_list\.OwnTrigger"):
        parse()


def test_a_class_inside_a_function_is_refused(
    parse: Callable[..., ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can import it, wherever the file lies."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="inside a function"):
        parse("made()")


def test_where_a_task_runs_nothing_is_refused(parse: Callable[..., ModuleType]) -> None:
    """A worker needs no trigger: it must not fail for it."""
    with _airflow_parsing_context_manager(dag_id="d", task_id="t"):
        assert parse().TRIGGER.asset_watermark.asset_name == "own"
