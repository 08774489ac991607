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
    "refuse",
]

OWN_NAMES = "cursor_low_"
"""How the names of the bound parameters begin that the source adds to a query's own: a cursor, and an upper edge."""

EDGE_NAMES = "cursor_edge_"

# Text literals, quoted names and comments: what stands in them is not the query's structure.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_WRITING = ("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "CREATE", "ALTER", "DROP", "TRUNCATE", "CALL")
_LAST_CLAUSE = re.compile(
    r"\bORDER\s+BY\b|\bLIMIT(?=\s+[\d:(]|\s+ALL\b)|\bOFFSET(?=\s+[\d:(])|\bFETCH\s+(?:FIRST|NEXT)\b", re.IGNORECASE
)
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


def bindable(text: str, parameters: Collection[str]) -> str:
    """Return a text for SQLAlchemy, in which every colon that begins no parameter is escaped."""
    done = 0
    parts: list[str] = []
    for quoted in _QUOTED.finditer(text):
        parts += [_escaped(text[done : quoted.start()], parameters), quoted[0].replace(":", r"\:")]
        done = quoted.end()
    return "".join([*parts, _escaped(text[done:], parameters)])


def _escaped(text: str, parameters: Collection[str]) -> str:
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    return re.sub(rf"((?<![:\w]):(?=(?:{names})\b))|:", lambda colon: colon[1] or r"\:", text)


def check_query(sql: str) -> None:
    """Refuse a query that cannot be read as a part of another one.

    :raises ConfigurationError: saying why.
    """
    if not isinstance(sql, str) or not sql.strip() or "\x00" in sql:
        refuse("sql", sql, "give the text of one SELECT")
    structure = _QUOTED.sub(" ", sql)
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
    if ";" in _QUOTED.sub("", where):
        refuse("where", where, "it has a semicolon, and is a part of a query; give one condition without it")


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
    texts = " ".join(_QUOTED.sub("", text) for text in (sql, where) if text)
    for name in sorted(parameters.keys() - set(_PARAMETER.findall(texts))):
        place = " and ".join(named for named, text in (("sql", sql), ("where", where)) if text)
        refuse("parameters", sorted(parameters), f"{place} has no ':{name}'; write it there, or leave it out")


def refuse(parameter: str, value: object, remedy: str) -> NoReturn:
    """Raise the error of a parameter that cannot be used: its name, its value, the remedy."""
    msg = f"{parameter}={value!r} cannot be used; {remedy}"
    raise ConfigurationError(msg)
