"""Checks the sizes that no linter checks: lines of a module and lines of a function.

A function's budget is for its code. Its docstring does not count: describing a parameter must never cost a line of it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["findings", "main"]

MODULE_LINES = 300
FUNCTION_LINES = 50
_CHECKED = ("src", "tests", "harness", "example_dags", "example_stores", "benchmarks", "dev")


def findings(path: Path) -> Iterator[str]:
    """Yield what is too long in a module, as ``path:line: reason``."""
    source = path.read_text()
    lines = len(source.splitlines())
    if lines > MODULE_LINES:
        yield f"{path}:1: the module has {lines} lines, {MODULE_LINES} are allowed"
    for node in ast.walk(ast.parse(source, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = _code_lines(node)
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, {FUNCTION_LINES} are allowed"


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return from ``def`` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def _modules(root: Path) -> Iterator[Path]:
    for top in _CHECKED:
        path = root / top
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []


def main(root: Path) -> int:
    """Print every finding below the root and return how many there are, as an exit status."""
    found = [finding for module in _modules(root) for finding in findings(module.relative_to(root))]
    for finding in found:
        print(finding)
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(Path()))
