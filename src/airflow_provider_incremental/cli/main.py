"""The entry of ``airflow-incremental``: reads the arguments, runs the action, prints its text or one line of error."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module

from airflow_provider_incremental.cli.commands import parse
from airflow_provider_incremental.core.errors import IncrementalError
from airflow_provider_incremental.core.redact import without_secrets

__all__ = ["main"]

FAILED = 1
INTERRUPTED = 130
_OUTPUT, _ERROR = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    :param arguments: without the program's name; those of this process when not given.
    :return: 0, or 1 when the action failed or what it looked at is not in order. Wrong usage exits with 2.
    """
    given = parse(arguments)
    # Airflow then looks for connections in its database, as its own commands do.
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        # What Airflow and its plugins print or log while they load would spoil JSON.
        with _standard_output_to_error():
            module, _, name = given.action.partition(":")
            said = getattr(import_module(module), name)(given)
    except IncrementalError as error:
        print(f"airflow-incremental: {without_secrets(str(error))}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    text, status = said if isinstance(said, tuple) else (said, 0)
    return _print(text) or int(status)


@contextmanager
def _standard_output_to_error() -> Generator[None, None, None]:
    """Below Python as well: Airflow 3.0 logs to the file that was standard output when it was loaded."""
    try:
        kept = os.dup(_OUTPUT)
    except OSError:  # closed, as in a service
        with redirect_stdout(sys.stderr):
            yield
        return
    try:
        os.dup2(_ERROR, _OUTPUT)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, _OUTPUT)
        os.close(kept)


def _print(text: str) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name or a note may hold what this terminal has no letter for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    atexit.register(_say_no_more)
    return 0


def _say_no_more() -> None:
    """Keep what Airflow 3.0 logs as it ends out of what was printed."""
    sys.stdout = sys.stderr
