"""What may be shown of an error: one bounded line, with the passwords of URLs taken out."""

from __future__ import annotations

import re

__all__ = ["LOOKED_AT", "describe", "one_line", "without_secrets"]

_LONGEST = 1000
LOOKED_AT = 20_000
"""Characters of a message that are worth looking at where only the first of them are shown."""
# Each of these looks at a text once, however it is made: it may be long, and whoever wrote it no friend.
_WORD = re.compile(r"\S+")
_USER = re.compile(r"://[^:/@]*:")
_NAMED_SECRET = re.compile(
    r"(?i)((?:password|passwd|pwd|passphrase|secret|token|account_?key|access_?key|api_?key|private_?key|signature"
    r"|credential|authorization)(?![\w-]{0,100}Error\b)[\w-]{0,100}['\"]?\s*[=:]\s*(?:bearer\s|basic\s)?)"
    r"('[^']*'|\"[^\"]*\"|[^\s&,;)]+)"
)
# PostgreSQL tells the values of the row that it refused, and SQLAlchemy those that were bound.
_ROW = re.compile(r"\bDETAIL:\s.*?(?=\s(?:HINT|CONTEXT|QUERY|WHERE):\s|\s\[SQL: |\Z)", re.DOTALL)
_BOUND = "[parameters: "
_BOUND_END = re.compile(r"\](?=\s*\(Background|\s*\Z)")


def without_secrets(text: str) -> str:
    """Return the text with the password of every URL, and the value of every named secret, replaced by stars.

    What a database says of the contents of a row is left out.

    >>> without_secrets("cannot reach postgresql://app:s3cret@db/shop")
    'cannot reach postgresql://app:***@db/shop'
    """
    shown = _ROW.sub("", _without_bound(text))
    if "://" in shown:
        shown = _WORD.sub(_without_password, shown)
    return _NAMED_SECRET.sub(r"\1***", shown)


def _without_bound(text: str) -> str:
    """Leave out lists of bound values; of one without an end, as in a text that was cut, all that follows."""
    kept, at = [], 0
    while (begin := text.find(_BOUND, at)) >= 0:
        kept.append(text[at:begin])
        end = _BOUND_END.search(text, begin)
        at = len(text) if end is None else end.end()
    return "".join([*kept, text[at:]])


def _without_password(word: re.Match[str]) -> str:
    """Replace the password of a URL, up to the last @: it may have one as well."""
    text = word.group()
    last = text.rfind("@")
    user = _USER.search(text, 0, max(last, 0))
    return text if user is None else f"{text[: user.end()]}***{text[last:]}"


def describe(error: BaseException) -> str:
    """Return one line for a status or a log: the type of the error unless it is ours, and its message, bounded."""
    message = one_line(_message(error)[:LOOKED_AT])
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
