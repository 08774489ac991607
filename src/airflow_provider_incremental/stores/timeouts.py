"""How long an operation is tried on a store that is reached by requests: the option ``timeout`` of its address."""

from __future__ import annotations

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["TIMEOUT", "timeout_from"]

TIMEOUT = 30.0
"""Seconds, where the address says nothing else."""

_LONGEST = 600


def timeout_from(text: str | None) -> float:
    """Return the seconds that an address says, :data:`TIMEOUT` for None.

    :raises ConfigurationError: when it is no number from 1 to 600.

    >>> timeout_from("2.5"), timeout_from(None)
    (2.5, 30.0)
    """
    try:
        seconds = TIMEOUT if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= _LONGEST:
        msg = f"timeout={text!r} of [incremental] store is not a number of seconds from 1 to {_LONGEST}"
        raise ConfigurationError(msg)
    return seconds
