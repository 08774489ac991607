"""What a command needs before it changes something by hand: who does it and why, and a yes."""

from __future__ import annotations

import sys
from argparse import Namespace

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.upkeep import Act
from airflow_provider_incremental.wiring.actor import present_user

__all__ = ["act_of", "require_consent"]


def act_of(given: Namespace) -> Act:
    """Return who does it and why, for the journal."""
    return Act(who=given.who or present_user(), why=given.reason)


def require_consent(given: Namespace, question: str, refused: str) -> None:
    """Go on only with ``--yes``, or when somebody says so.

    :param question: what will happen, as a sentence.
    :param refused: what was not done, for the error.
    :raises ConfigurationError: when nobody is there to be asked, or the answer is no.
    """
    if given.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationError(f"{refused}: nobody is here to be asked; repeat it with --yes")
    print(f"{question} Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfigurationError(refused)
