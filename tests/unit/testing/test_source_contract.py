"""The published suite tells a source's author what is expected, also of one that never comes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_SUITE = """
import asyncio
import pytest
from airflow_provider_incremental import Baseline, Found
from airflow_provider_incremental.testing import ListSource, source_contract

source_contract.ANSWERS_WITHIN = 0.2

class BadSource(ListSource):
    async def {broken}

class Stage:
    def __init__(self):
        self.items = set()
    def open(self):
        source = BadSource()
        source.items = self.items
        return source
    async def add(self, at, name):
        ListSource.add(self, at, name)
    def name_of(self, item):
        return item["name"]
    async def fail(self):
        pass
    async def work(self):
        pass

class TestBad(source_contract.SourceContract):
    @pytest.fixture
    def stage(self):
        return Stage()
"""
_STUCK = "await asyncio.Event().wait()"


@pytest.mark.parametrize(
    ("broken", "test", "says"),
    [
        (
            f"poll(self, low, limit, seen): {_STUCK}",
            "nothing_there",
            "poll(None, 1000, ...) has not returned after 0.2",
        ),
        (
            f"poll(self, low, limit, seen): {_STUCK}",
            "an_error_is_not_emptiness",
            "does not wait for news: changed() does",
        ),
        (f"latest(self): {_STUCK}", "the_latest_of_nothing", "returns the position of the newest item"),
        (f"aclose(self): {_STUCK}", "nothing_there", "aclose() has not returned after 0.2 seconds"),
        ("poll(self, low, limit, seen): return None", "nothing_there", "gave None; expected: a Found"),
        ("latest(self): return 3", "the_latest_of_nothing", "latest() gave 3; expected: a Baseline"),
        ("poll(self, low, limit, seen): return Found(high=1, more=True)", "one_source_polls", "assert"),
    ],
)
def test_a_source_that_does_not_answer_is_told_what_was_expected(
    tmp_path: Path, broken: str, test: str, says: str
) -> None:
    """Each test ends soon, and fails in so many words."""
    (tmp_path / "test_bad.py").write_text(_SUITE.format(broken=broken))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-k", test]
    ran = subprocess.run(
        [*command, "test_bad.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert ran.returncode == 1, ran.stdout
    assert says in ran.stdout


def test_the_stage_of_the_documentation_passes(tmp_path: Path) -> None:
    """What the page on triggers shows is a test module that runs, on the source of the example."""
    root = Path(__file__).parents[3]
    section = (root / "docs" / "triggers.md").read_text().partition("## A source of your own")[2]
    shown = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "test_shown.py").write_text(shown[-1])
    environment = os.environ | {"PYTHONPATH": str(root / "example_dags")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"\d\d passed", ran.stdout)
