"""What ``airflow-incremental preflight`` does."""

from __future__ import annotations

import json
import textwrap
from argparse import Namespace
from typing import Any

from airflow_provider_incremental.cli.output import as_json
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.redact import one_line
from airflow_provider_incremental.triggers._preflight import Finding, Preflight, preflight

__all__ = ["look"]

_WIDTH = 100
_AS_GIVEN = ("table", "sql", "where", "null_cursor", "visibility", "timezone")


def look(given: Namespace) -> tuple[str, int]:
    """Look at a table or a query before it is watched; the status is 1 when it could not be polled."""
    cursor = [name.strip() for word in given.cursor for name in word.split(",") if name.strip()]
    arguments = {name: getattr(given, name) for name in _AS_GIVEN}
    parameters = dict(map(_parameter, given.parameter))
    found = preflight(
        given.conn_id, cursor=cursor, unique=given.sql is not None, parameters=parameters or None, **arguments
    )
    text = as_json(_json(found)) if given.output == "json" else _lines(found)
    return text, 0 if found.ok else 1


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        msg = f"--parameter {text!r} names no value; write NAME=VALUE, such as status=paid or least=100"
        raise ConfigurationError(msg)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _json(found: Preflight) -> dict[str, object]:
    names = ("check", "level", "message", "ddl")
    findings = [{name: getattr(finding, name) for name in names} for finding in found.findings]
    return {"ok": found.ok, "findings": findings, "ddl": found.ddl}


def _lines(found: Preflight) -> str:
    lines = [line for finding in found.findings for line in _finding(finding)]
    lines += ["", *(f"{statement};" for statement in found.ddl)] if found.ddl else []
    return "\n".join(lines)


def _finding(finding: Finding) -> list[str]:
    head = f"{finding.level.upper():<8} {finding.check:<11} "
    return textwrap.wrap(one_line(finding.message), _WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
