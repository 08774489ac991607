"""What every benchmark ends with: its figures as JSON, and the same as a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

__all__ = ["json_file", "table", "write"]

_PACKAGES = ("airflow-provider-incremental", "apache-airflow", "SQLAlchemy", "asyncpg", "aiobotocore", "botocore")


def json_file(description: str) -> Path:
    """Return the file that ``--json`` names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", type=Path, required=True, help="where the figures go")
    file: Path = parser.parse_args().json
    return file


def write(bench: str, figures: Mapping[str, float], file: Path) -> None:
    """Write the figures of a benchmark, with what they were measured on."""
    environment = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "packages": {name: version(name) for name in _PACKAGES},
    }
    document = {"bench": bench, "figures": dict(figures), "environment": environment}
    file.write_text(json.dumps(document, indent=2) + "\n")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows of text in columns: the first to the left, the others to the right."""
    cells = [[_text(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _text(cell: object) -> str:
    return f"{cell:,.2f}" if isinstance(cell, float) else str(cell)
