"""What ``airflow-incremental api-token`` does: the file of tokens replaced whole, as a server reads it."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import os
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.web.api.tokens import entry_of, new_token, read_tokens

__all__ = ["change"]

_OWNER_ONLY = 0o600


def change(given: Namespace) -> str:
    """Add a token and return it, or take all of a name out.

    :raises ConfigurationError: when the file cannot be used, or a token would allow nothing.
    """
    now = dt.datetime.now(dt.UTC)
    with _alone_at(given.file):
        entries = _entries(given.file)
        others = [entry for entry in entries if entry["name"] != given.name]
        if given.revoke:
            if len(others) == len(entries):
                names = ", ".join(sorted({entry["name"] for entry in entries})) or "none"
                msg = f"{given.file} has no token of {given.name}; nothing was changed. There are tokens of: {names}"
                raise ConfigurationError(msg)
            _write(given.file, others)
            return f"{given.file}: {len(entries) - len(others)} tokens of {given.name} are not known any more"
        if not given.scope:
            msg = "give --scope, once or several times: a token that allows nothing is of no use"
            raise ConfigurationError(msg)
        _require_names(given)
        token = new_token()
        expires = None if given.days is None else _later(now, "--days", days=given.days)
        new = entry_of(
            token, given.name, given.scope, namespaces=given.namespace, expires=expires, vouches=given.vouches
        )
        kept = entries if given.retire_in is None else _retired(entries, given.name, now, given.retire_in)
        _write(given.file, [*kept, new])
    return token


def _require_names(given: Namespace) -> None:
    for option, text in (("--name", given.name), *(("--namespace", each) for each in given.namespace or ())):
        if not text.strip() or not text.isprintable():
            msg = f"{option} {text!r} is not a name: give letters that can be read in a log"
            raise ConfigurationError(msg)


def _later(now: dt.datetime, option: str, **span: float) -> dt.datetime:
    try:
        return now + dt.timedelta(**span)
    except OverflowError:
        (number,) = span.values()
        msg = f"{option} {number:g} is past the last day that there is; leave it out for a token without an end"
        raise ConfigurationError(msg) from None


@contextmanager
def _alone_at(path: Path) -> Generator[None, None, None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock").open("w")
    except OSError as error:
        msg = f"the file of tokens {path} cannot be written: {error}"
        raise ConfigurationError(msg) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _entries(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    read_tokens(path)  # refuses what no server would read
    entries: list[dict[str, Any]] = json.loads(path.read_text())["tokens"]
    return entries


def _retired(entries: list[dict[str, Any]], name: str, now: dt.datetime, hours: float) -> list[dict[str, Any]]:
    end = _later(now, "--retire-in", hours=hours)

    def ending(entry: dict[str, Any]) -> dict[str, Any]:
        known = entry.get("expires")
        sooner = known is not None and dt.datetime.fromisoformat(known) <= end
        return entry if entry["name"] != name or sooner else entry | {"expires": end.isoformat()}

    return [entry for entry in map(ending, entries) if _lives(entry, now)]


def _lives(entry: dict[str, Any], now: dt.datetime) -> bool:
    return "expires" not in entry or dt.datetime.fromisoformat(entry["expires"]) > now


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY), "w") as file:
        json.dump({"tokens": entries}, file, indent=2)
        file.write("\n")
    new.replace(path)
