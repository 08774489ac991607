"""What the documentation names is there, and what is public is documented."""

from __future__ import annotations

import inspect
import re
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import airflow_provider_incremental
from airflow_provider_incremental import (
    IncrementalTrigger,
    S3KeyIncrementalTrigger,
    SQLIncrementalQueryTrigger,
)
from airflow_provider_incremental.cli.commands import parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def text_of(*pages: Path) -> str:
    return "\n".join(page.read_text() for page in pages)


def table_rows(page: Path) -> list[str]:
    return [line for line in page.read_text().splitlines() if line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    """Paths of this repository in code spans, and the targets of links."""
    text = page.read_text()
    tops = "|".join(["src", "tests", "docs", "example_dags", "benchmarks", "harness"])
    spans = re.findall(rf"`((?:{tops})/[\w./-]*)`", text)
    links = [target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    missing = [span for span in spans if not (ROOT / span).exists()]
    missing += [link for link in links if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("page", "heading", "least"),
    [(ROOT / "README.md", "| what happens", 8), (DOCS / "guarantees.md", "| the process dies", 11)],
    ids=["README", "guarantees"],
)
def test_every_guarantee_names_a_test(page: Path, heading: str, least: int) -> None:
    """Each row of a table of guarantees ends with a test file that is there."""
    tables = page.read_text().split("\n\n")
    (table,) = [table for table in tables if table.startswith(heading)]
    rows = table.splitlines()[2:]
    assert len(rows) >= least
    for row in rows:
        shown = re.findall(r"`(tests/[\w/]+\.py)`", row.rstrip("| ").rpartition("|")[2])
        assert shown, f"no test is named: {row}"
        assert all((ROOT / path).is_file() for path in shown), row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_section_finds_it(page: Path) -> None:
    """The part of a link behind # is a heading of the page that it points at."""
    for target, anchor in re.findall(r"\]\(([^)#]*)#([\w-]+)\)", page.read_text()):
        linked = page.parent / target if target else page
        headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{linked.name} has no section #{anchor}"


def parameters_of(trigger: type) -> set[str]:
    """Return what a user may give to a trigger; what its bases take is given to it as well.

    ``stored`` is none of them: it marks what Airflow has stored of a trigger.
    """
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found: set[str] = set()
    for each in trigger.__mro__:
        if each.__module__.startswith("airflow_provider_incremental") and "__init__" in vars(each):
            parameters = inspect.signature(vars(each)["__init__"]).parameters.values()
            found |= {parameter.name for parameter in parameters if parameter.kind not in kinds}
    return found - {"self", "stored"}


def documented_parameters(title: str) -> set[str]:
    """Return the parameters in the table of a section of the page on triggers."""
    section = (DOCS / "triggers.md").read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    first_cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
    return {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("trigger", [S3KeyIncrementalTrigger, SQLIncrementalQueryTrigger])
def test_every_parameter_of_a_trigger_is_documented(trigger: type) -> None:
    """Those of all triggers in one table, each trigger's own in its; and no table has one that does not exist."""
    every = documented_parameters("All triggers")
    documented = every | documented_parameters(f"`{trigger.__name__}`")
    assert {"asset_name", "poll_interval"} <= every <= parameters_of(trigger)
    # It is called max_rows there.
    renamed = {"max_items"} if "max_rows" in documented else set()
    assert documented == parameters_of(trigger) - renamed


def test_every_parameter_of_the_base_is_documented() -> None:
    """The size of a batch stands where a trigger of one's own is described."""
    assert documented_parameters("All triggers") == parameters_of(IncrementalTrigger) - {"max_items"}
    assert "`max_items`" in (DOCS / "triggers.md").read_text().partition("## A source of your own")[2]


def commands(of: ArgumentParser, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every command that does something, with the words that lead to it."""
    below = [action for action in of._actions if isinstance(action, _SubParsersAction)]
    if not below:
        yield path
    for action in below:
        for name, child in action.choices.items():
            yield from commands(child, (*path, name))


def documented_commands(text: str) -> set[tuple[str, ...]]:
    """Return the commands that a text shows; ``db upgrade|check`` shows two."""
    found: set[tuple[str, ...]] = set()
    for line in re.findall(r"airflow-incremental ((?:[a-z][a-z|-]* ?)+)", text):
        words = [word.split("|") for word in line.split()]
        for length in range(1, len(words) + 1):
            found |= set(product(*words[:length]))
    return found


def test_every_command_is_documented() -> None:
    """The page on the store shows each command of the command line, and none that is not there."""
    every = set(commands(parser()))
    shown = documented_commands(text_of(DOCS / "store.md"))
    assert {"list", "show", "set", "rewind", "db", "preflight", "notify", "replay", "forget-consumer"} <= {
        command[0] for command in every
    }
    assert every <= shown
    assert {command[0] for command in documented_commands(text_of(*PAGES))} <= {command[0] for command in every}


def test_an_undocumented_command_would_be_noticed() -> None:
    """The check is one that can fail."""
    assert documented_commands("`airflow-incremental db upgrade|check` and airflow-incremental list [ASSET]") == {
        ("db",),
        ("db", "upgrade"),
        ("db", "check"),
        ("list",),
    }


def test_every_public_name_is_documented() -> None:
    """Each name of the package's root stands in the documentation, in code."""
    code = " ".join(re.findall(r"```.*?```|`[^`\n]+`", text_of(*PAGES), re.DOTALL))
    missing = [name for name in airflow_provider_incremental.__all__ if not re.search(rf"\b{name}\b", code)]
    assert missing == []
