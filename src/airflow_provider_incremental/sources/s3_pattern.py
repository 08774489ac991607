"""Glob patterns over keys: which objects below a prefix are meant.

=========  ==========================================================================================
``*``      any run of characters within one folder: it does not cross ``/``
``**``     any run of characters, ``/`` included
``**/``    at the start or after ``/``: any number of whole folders, none as well
``?``      one character, not ``/``
``[...]``  one character of a set or a range, not ``/``; ``[!...]`` one that is not in it
``[[]``    the character ``[`` itself; likewise ``[*]`` and ``[?]``
=========  ==========================================================================================

Everything else stands for itself; upper and lower case differ. A pattern covers the whole key below the prefix.
``regex:`` in front makes the rest a regular expression, which covers the whole key below the prefix as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = ["compile_choice", "compile_pattern"]

_REGEX = "regex:"

_STAR = "[^/]*?"
_ANYTHING = ".*?"
_FOLDERS = "(?:.*?/)??"
_CROSSING = (_ANYTHING, _FOLDERS)


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression that a key below the prefix has to match in full.

    No key makes it slow: a part between two wildcards is tied to the first place where it fits (what lies behind it
    begins with a wildcard, so a later place could not do better).

    :raises ConfigurationError: when a ``[`` is not closed or a range runs backwards.

    >>> bool(compile_pattern("2024-0[1-3]*.csv").fullmatch("2024-02-28.csv"))
    True
    """
    if not pattern:
        msg = "pattern='' matches no key; leave it out to take every object below the prefix"
        raise ConfigurationError(msg)
    groups: list[tuple[str, list[str]]] = [("", [])]
    for token in _tokens(pattern):
        if token in _CROSSING:
            groups.append((token, []))
        else:
            groups[-1][1].append(token)
    last = len(groups) - 1
    parts = [
        _tied(crossing + _within_folders(tokens, at < last), at < last) for at, (crossing, tokens) in enumerate(groups)
    ]
    return re.compile("".join(parts), re.DOTALL)


def compile_choice(pattern: str | None, regex: str | None) -> re.Pattern[str] | None:
    """Return the regular expression of a glob, of ``"regex:..."`` in its place, or of a regular expression.

    :raises ConfigurationError: when both are given, or one of them cannot be used.

    >>> compile_choice("regex:[0-9]+[.]csv", None) == compile_choice(None, "[0-9]+[.]csv")
    True
    """
    if pattern is not None and regex is not None:
        msg = f"pattern={pattern!r} and regex={regex!r} are given; give one of them"
        raise ConfigurationError(msg)
    if pattern is not None and not pattern.startswith(_REGEX):
        return compile_pattern(pattern)
    expression = regex if pattern is None else pattern.removeprefix(_REGEX)
    if expression is None:
        return None
    name, given = ("regex", regex) if pattern is None else ("pattern", pattern)
    if not expression:
        msg = f"{name}={given!r} matches no key; leave it out to take every object below the prefix"
        raise ConfigurationError(msg)
    try:
        return re.compile(expression, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        msg = f"{name}={given!r:.200} is no regular expression: {error}; it has to match the key below the prefix"
        raise ConfigurationError(msg) from error


def _within_folders(tokens: Sequence[str], wildcard_follows: bool) -> str:
    """Join what stands between two wildcards that cross ``/``."""
    parts = [""]
    for token in tokens:
        if token == _STAR:
            parts.append("")
        parts[-1] += token
    last = len(parts) - 1
    return parts[0] + "".join(_tied(part, wildcard_follows or at < last) for at, part in enumerate(parts) if at)


def _tied(part: str, wildcard_follows: bool) -> str:
    return f"(?>{part})" if wildcard_follows else part


def _tokens(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        if pattern[at] == "*":
            end = at + len(pattern[at:]) - len(pattern[at:].lstrip("*"))
            token, at = _wildcard(pattern, at, end)
        elif pattern[at] == "[":
            token, at = _character_set(pattern, at)
        else:
            token, at = ("[^/]" if pattern[at] == "?" else re.escape(pattern[at])), at + 1
        yield token


def _wildcard(pattern: str, start: int, end: int) -> tuple[str, int]:
    """Return what a run of ``*`` stands for, and where the pattern goes on."""
    if end - start == 1:
        return _STAR, end
    if pattern[end : end + 1] == "/" and (start == 0 or pattern[start - 1] == "/"):
        return _FOLDERS, end + 1
    return _ANYTHING, end


def _character_set(pattern: str, start: int) -> tuple[str, int]:
    """Return what a ``[...]`` stands for, and where the pattern goes on."""
    negated = pattern[start + 1 : start + 2] == "!"
    first = start + 1 + negated
    end = pattern.find("]", first + 1)  # a ] that comes first is one of the set
    if end < 0:
        msg = f"pattern={pattern!r}: the [ at position {start} is not closed; write [[] for the character itself"
        raise ConfigurationError(msg)
    members = "".join(_members(pattern, pattern[first:end]))
    return f"(?!/)[{'^' * negated}{members}]", end + 1


def _members(pattern: str, content: str) -> Iterator[str]:
    at = 0
    while at < len(content):
        if content[at + 1 : at + 2] == "-" and at + 2 < len(content):
            low, high = content[at], content[at + 2]
            if low > high:
                msg = f"pattern={pattern!r}: the range {low}-{high} runs backwards; write {high}-{low}"
                raise ConfigurationError(msg)
            yield f"{re.escape(low)}-{re.escape(high)}"
            at += 3
        else:
            yield re.escape(content[at])
            at += 1
