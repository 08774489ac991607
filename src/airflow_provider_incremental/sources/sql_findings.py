"""What a look at a selection finds: each thing with what is so, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Finding", "Level", "Preflight", "fine", "warning"]

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    :param check: what was looked at, in a word.
    :param level: ``error``: no poll would be made. ``warning``: polls are made; something is slow or may mislead.
    :param message: what is so, and for a warning or an error what to do.
    :param ddl: a statement that mends it, where one does.
    """

    check: str
    level: Level
    message: str
    ddl: str | None = None


@dataclass(frozen=True, slots=True)
class Preflight:
    """All findings, in the order in which they were made."""

    findings: Sequence[Finding] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        """Whether the selection can be polled; there may be warnings."""
        return all(finding.level != "error" for finding in self.findings)

    @property
    def ddl(self) -> list[str]:
        """The statements that mend what was found, each once."""
        return list(dict.fromkeys(finding.ddl for finding in self.findings if finding.ddl is not None))


def fine(check: str, message: str) -> Finding:
    """Return the finding that something is in order."""
    return Finding(check=check, level="ok", message=message)


def warning(check: str, message: str) -> Finding:
    """Return the finding of something that keeps no poll from being made."""
    return Finding(check=check, level="warning", message=message)
