"""What a child process or a test may inherit from the shell that started us."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

__all__ = ["scrub", "scrubbed"]

# Settings of somebody's own Airflow, of their S3 and of their Python would decide what a test sees.
_FOREIGN = ("AIRFLOW", "_AIRFLOW", "AWS_", "PYTHONPATH", "PYTHONHOME", "PGSERVICE", "PGPASS")


def _is_foreign(name: str) -> bool:
    return name.startswith(_FOREIGN)


def scrub(environment: MutableMapping[str, str]) -> None:
    """Remove the variables that would change what is tested."""
    for name in [name for name in environment if _is_foreign(name)]:
        del environment[name]


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return a copy without the variables that would change what is tested."""
    return {name: value for name, value in environment.items() if not _is_foreign(name)}
