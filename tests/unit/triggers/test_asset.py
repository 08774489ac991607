"""An asset of one name is defined once: a second definition would take the watcher from the first."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_incremental import incremental_asset
from airflow_provider_incremental.core.errors import ConfigurationError
from tests.unit.triggers.list_trigger import ListTrigger

_FILE = """
from airflow_provider_incremental import incremental_asset
from tests.unit.triggers.list_trigger import ListTrigger
asset = incremental_asset("defined", ListTrigger, max_items={items})
"""


Parse = Callable[[str, int], dict[str, Any]]


@pytest.fixture
def parsed(tmp_path: Path) -> Parse:
    """Execute a DAG file of a name, as each parse does."""

    def parse(name: str, items: int) -> dict[str, Any]:
        (tmp_path / name).write_text(_FILE.format(items=items))
        return runpy.run_path(str(tmp_path / name))

    return parse


def test_the_same_definition_again_is_fine(parsed: Parse) -> None:
    """Two files may say the same."""
    first, second = parsed("one.py", 5), parsed("two.py", 5)
    assert first["asset"] == second["asset"]


def test_another_definition_is_refused(parsed: Parse) -> None:
    """It names the other file, what differs, and the ways out."""
    first = parsed("one.py", 5)
    with pytest.raises(ConfigurationError, match=r"'defined'.*one\.py.*max_items: 5 and 7.*import it.*two watchers"):
        parsed("two.py", 7)
    assert first["asset"].name == "defined"


def test_another_definition_in_one_file_is_refused() -> None:
    """Within one execution of it."""
    first = incremental_asset("twice", ListTrigger)
    with pytest.raises(ConfigurationError, match=r"poll_interval: '\(left out\)' and 5"):
        incremental_asset("twice", ListTrigger, poll_interval=5)
    assert first.name == "twice"


def test_a_file_that_was_edited_is_parsed_again(parsed: Parse) -> None:
    """By a process that goes on: what it defined before is replaced."""
    before = parsed("one.py", 5)
    assert parsed("one.py", 7)["asset"].watchers[0].trigger.max_items == 7
    assert before["asset"].watchers[0].trigger.max_items == 5


def test_a_definition_that_nobody_holds_is_none(parsed: Parse) -> None:
    """Of a file that is gone, or of a test before."""
    parsed("one.py", 5)
    assert parsed("two.py", 7)["asset"].name == "defined"
