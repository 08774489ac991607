"""Texts of SQL that users write: what may stand in them, how they are bound, and which names belong to whom."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from airflow_provider_incremental.core.errors import ConfigurationError

__all__ = [
    "EDGE_NAMES",
    "OWN_NAMES",
    "bindable",
    "check_condition",
    "check_parameters",
    "check_query",
    "layout_free",
    "refuse",
    "values_to_bind",
]

OWN_NAMES = "cursor_low_"
"""How the names of the bound parameters begin that the source adds to a query's own: a cursor, and an upper edge."""

EDGE_NAMES = "cursor_edge_"

# Text literals, quoted names and comments: what stands in them is not the query's structure.
_NAMES_AND_COMMENTS = r"|`[^`]*`|--[^\n]*|/\*.*?\*/|(?<![\w$])\$(?P<tag>[^\W\d]\w*|)\$.*?\$(?P=tag)\$"
_STANDARD = re.compile(
    r"(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"" + _NAMES_AND_COMMENTS, re.DOTALL
)
_BACKSLASHED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"" + _NAMES_AND_COMMENTS, re.DOTALL)
_LEFT_OVER = re.compile(r"['\"`\\]")
_WRITING = ("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "CREATE", "ALTER", "DROP", "TRUNCATE", "CALL")
_LAST_CLAUSE = re.compile(
    r"\bORDER\s+BY\b|\bLIMIT(?=\s+[\d:(]|\s+ALL\b)|\bOFFSET(?=\s+[\d:(])|\bFETCH\s+(?:FIRST|NEXT)\b", re.IGNORECASE
)
_LOCKING = re.compile(r"\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|KEY\s+SHARE|SHARE)\b", re.IGNORECASE)
# Only where nothing but a parameter can stand: a colon has other meanings in slices, paths and literals of its own.
_UNBOUND = re.compile(
    r"(?:[=<>(+\-*/|,%]|\b(?:IN|I?LIKE|AND|OR|NOT|BETWEEN|WHERE|THEN|ELSE|WHEN|SELECT|INTERVAL))\s*(?<!:):([^\W\d]\w*)\b(?!:)",
    re.IGNORECASE,
)
_INSIDE = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}")
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
_NUMBERED = re.compile(r"_\d+$")


def bindable(text: str, parameters: Collection[str]) -> str:
    """Return a text for SQLAlchemy, in which every colon that begins no parameter is escaped.

    Parameters have the names of :func:`values_to_bind` in it.
    """
    done = 0
    parts: list[str] = []
    for quoted in _quoted(text).finditer(text):
        parts += [_escaped(text[done : quoted.start()], parameters), quoted[0].replace(":", r"\:")]
        done = quoted.end()
    return "".join([*parts, _escaped(text[done:], parameters)])


def values_to_bind(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a text that was made :func:`bindable`, by the names that they have there.

    >>> values_to_bind({"day": 1, "param_1": 2})
    {'day': 1, 'cursor_low_given_param_1': 2}
    """
    return {_name_to_bind(name): value for name, value in parameters.items()}


def _name_to_bind(name: str) -> str:
    # SQLAlchemy numbers the parameters that it names itself, and would take this one for its own.
    return f"{OWN_NAMES}given_{name}" if _NUMBERED.search(name) else name


def _escaped(text: str, parameters: Collection[str]) -> str:
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    return re.sub(
        rf"(?<![:\w]):({names})\b|:", lambda found: r"\:" if found[1] is None else f":{_name_to_bind(found[1])}", text
    )


def layout_free(text: str) -> str:
    """Return a text in which line breaks and indentation do not count, but within literals and quoted names.

    >>> layout_free("SELECT  'a  b'   FROM t")
    "SELECT 'a  b' FROM t"
    """
    kept: list[str] = []

    def keep(found: re.Match[str]) -> str:
        if found[0].startswith(("--", "/*")):
            return found[0]
        kept.append(found[0])
        return "\0"  # which no text may have

    return re.sub("\0", lambda _: kept.pop(0), " ".join(_quoted(text).sub(keep, text).split()))


def _quoted(text: str) -> re.Pattern[str]:
    """Return what is quoted in a text: the standard's rules break one in which a backslash escapes a quote."""
    fitting = (each for each in (_STANDARD, _BACKSLASHED) if not _LEFT_OVER.search(each.sub(" ", text)))
    return next(fitting, _STANDARD)


def _readings(text: str) -> list[str]:
    """Return what a text may be to a database, without quotes, comments, and what stands in brackets.

    Empty where that cannot be told: then nothing is said against it.
    """
    readings = []
    for rules in (_STANDARD, _BACKSLASHED):
        if _LEFT_OVER.search(rules.sub(" ", text)):
            continue
        # A name of a letter stands in for what is quoted, since a colon behind it begins a path and no parameter.
        reading = rules.sub(lambda found: " " if found[0].startswith(("--", "/*")) else "q", text)
        while _INSIDE.search(reading):
            reading = _INSIDE.sub("q", reading)
        readings.append(reading)
    return [] if any("#" in reading for reading in readings) else readings  # which begins a comment of MySQL's


def _structure(text: str) -> str:
    return _quoted(text).sub(" ", text)


def check_query(sql: str) -> None:
    """Refuse a query that cannot be read as a part of another one.

    :raises ConfigurationError: saying why.
    """
    if not isinstance(sql, str) or not sql.strip() or "\x00" in sql:
        refuse("sql", sql, "give the text of one SELECT")
    structure = _structure(sql)
    if ";" in structure:
        refuse("sql", sql, "it has a semicolon, and is read as a part of another query; give one SELECT without it")
    first = re.match(r"\s*(\w+)", structure)
    if first is not None and first[1].upper() in _WRITING:
        refuse("sql", sql, f"it begins with {first[1]}, and is read as a part of another query; give one SELECT")
    clause = _LAST_CLAUSE.search(_outermost(structure))
    if clause is not None:
        found = " ".join(clause[0].upper().split())
        why = {
            "ORDER BY": "the order of a poll is that of the cursor, and one inside of it counts for nothing",
        }.get(found, "a poll has a limit of its own (max_rows), and one inside of it would hide rows for good")
        refuse("sql", sql, f"it ends with {found}, and is read as a part of another query: {why}; leave it out")

    locking = _LOCKING.search(_outermost(structure))
    if locking is not None:
        refuse(
            "sql", sql, f"it ends with {' '.join(locking[0].upper().split())}, and a poll locks no rows; leave it out"
        )


def _outermost(structure: str) -> str:
    """Return a query without what stands in parentheses."""
    depth, kept = 0, list[str]()
    for character in structure:
        depth += (character == "(") - (character == ")" and depth > 0)
        kept.append(character if depth == 0 else " ")
    return "".join(kept)


def check_condition(where: str | None) -> None:
    """Refuse what is no condition.

    :raises ConfigurationError: saying why.
    """
    if where is None:
        return
    if not isinstance(where, str) or not where.strip() or "\x00" in where:
        refuse("where", where, "give the text of one condition, such as \"status = 'paid'\"")
    if ";" in _structure(where):
        refuse("where", where, "it has a semicolon, and is a part of a query; give one condition without it")
    readings = _readings(where)
    if readings and not any(map(_is_balanced, readings)):
        refuse("where", where, "its parentheses do not match, and it is read as a part of a query; give one condition")
    clauses = [_LAST_CLAUSE.search(_outermost(reading)) for reading in readings]
    if clauses and clauses[0] is not None and None not in clauses:
        refuse("where", where, f"it has {' '.join(clauses[0][0].upper().split())}, which is no condition; leave it out")


def _is_balanced(reading: str) -> bool:
    depth = 0
    for character in reading:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def check_parameters(parameters: Mapping[str, Any], sql: str | None, where: str | None) -> None:
    """Refuse parameters that the texts do not name, or whose names are taken.

    :raises ConfigurationError: naming them.
    """
    if not isinstance(parameters, Mapping):
        refuse("parameters", parameters, "give a dictionary with the value of each :name in sql or where")
    if parameters and sql is None and where is None:
        refuse("parameters", sorted(parameters), "they belong to a query or a condition; give sql= or where=")
    taken = OWN_NAMES, EDGE_NAMES
    own = [name for name in parameters if not isinstance(name, str) or name.startswith(taken)]
    if own:
        names = " or ".join(map(repr, taken))
        refuse("parameters", sorted(map(str, own)), f"names that begin with {names} are taken; choose others")
    texts = " ".join(_structure(text) for text in (sql, where) if text)
    for name in sorted(parameters.keys() - set(_PARAMETER.findall(texts))):
        place = " and ".join(named for named, text in (("sql", sql), ("where", where)) if text)
        refuse("parameters", sorted(parameters), f"{place} has no ':{name}'; write it there, or leave it out")
    for place, text in (("sql", sql), ("where", where)):
        unbound = [set(_UNBOUND.findall(reading)) - parameters.keys() for reading in _readings(text or "")]
        for name in sorted(set.intersection(*unbound) if unbound else ()):
            refuse(place, text, f"it names ':{name}', which has no value; give parameters={{{name!r}: ...}}")


def refuse(parameter: str, value: object, remedy: str) -> NoReturn:
    """Raise the error of a parameter that cannot be used: its name, its value, the remedy."""
    msg = f"{parameter}={value!r} cannot be used; {remedy}"
    raise ConfigurationError(msg)
