"""What may be shown of an error: one bounded line, with the passwords of URLs taken out."""

from __future__ import annotations

import re

__all__ = ["describe", "one_line", "without_secrets"]

_LONGEST = 1000
_URL_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):\S*@")  # up to the last @: a password may have one as well
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|passphrase|secret|token|account_?key|access_?key|api_?key|private_?key|signature"
    r"|credential|authorization)(?![\w-]*Error\b)[\w-]*['\"]?\s*[=:]\s*(?:bearer\s|basic\s)?)"
    r"('[^']*'|\"[^\"]*\"|[^\s&,;)]+)"
)
# PostgreSQL tells the values of the row that it refused, and SQLAlchemy those that were bound.
_ROW = re.compile(
    r"\bDETAIL:\s.*?(?=\s(?:HINT|CONTEXT|QUERY|WHERE):\s|\s\[SQL: |\Z)"
    r"|\[parameters: .*?\](?=\s*\(Background|\s*\Z)",
    re.DOTALL,
)


def without_secrets(text: str) -> str:
    """Return the text with the password of every URL, and the value of every named secret, replaced by stars.

    What a database says of the contents of a row is left out.

    >>> without_secrets("cannot reach postgresql://app:s3cret@db/shop")
    'cannot reach postgresql://app:***@db/shop'
    """
    return _NAMED_SECRET.sub(r"\1***", _URL_PASSWORD.sub(r"\1:***@", _ROW.sub("", text)))


def describe(error: BaseException) -> str:
    """Return one line for a status or a log: the type of the error unless it is ours, and its message, bounded."""
    message = one_line(_message(error))
    kind = type(error)
    if not kind.__module__.startswith("airflow_provider_incremental"):
        message = f"{kind.__name__}: {message}" if message else kind.__name__
    return message if len(message) <= _LONGEST else message[: _LONGEST - 1] + "…"


def one_line(text: str) -> str:
    """Return text as every log, terminal and database takes it: one line, no secrets, nothing that cannot be printed.

    >>> one_line("no   such table ")
    'no such table'
    """
    words = " ".join(without_secrets(text).split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in words)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:  # what describes an error must not become one
        return f"(its message cannot be shown: {type(broken).__name__})"
