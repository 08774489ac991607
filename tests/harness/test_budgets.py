"""The budgets of size are measured, not guessed."""

from __future__ import annotations

import pytest

from harness.budgets import FUNCTION_LINES, MODULE_LINES, findings


@pytest.fixture
def module(tmp_path):
    """Writes a module and returns what is found in it."""

    def write(source):
        path = tmp_path / "module.py"
        path.write_text(source)
        return [finding.removeprefix(f"{path}:") for finding in findings(path)]

    return write


def function(lines, head="def long():"):
    return "\n".join([head, *["    pass"] * (lines - 1)])


@pytest.mark.parametrize("head", ["def long():", "async def long():"])
def test_a_function_may_be_as_long_as_the_budget_and_no_longer(module, head):
    """The line with ``def`` counts, whatever kind of function it is."""
    assert module(function(FUNCTION_LINES, head)) == []
    assert module(function(FUNCTION_LINES + 1, head)) == ["1: long has 51 lines, 50 are allowed"]


def test_a_docstring_costs_a_function_nothing(module):
    """A public function may describe each of its parameters; one line of code too many is still too many."""
    head = 'def long():\n    """Say it.\n\n    At length.\n    """'
    assert module(function(FUNCTION_LINES, head)) == []
    assert module(function(FUNCTION_LINES + 1, head)) == ["1: long has 51 lines, 50 are allowed"]


def test_a_module_may_be_as_long_as_the_budget_and_no_longer(module):
    """Blank lines count: they are read as well."""
    assert module("\n" * MODULE_LINES) == []
    assert module("\n" * (MODULE_LINES + 1)) == ["1: the module has 301 lines, 300 are allowed"]
