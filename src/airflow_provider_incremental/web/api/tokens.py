"""Bearer tokens of a server that runs alone: made once, kept as hashes in a file, replaced without a pause.

The file is read again whenever it changes. A token is 256 random bits, so that a fast hash of it tells nobody anything.
Several tokens may have one name: add the new one, give it to the clients, then take the old one out.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import ConfigurationError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.stores.api.operations import SCOPES, Scope
from airflow_provider_incremental.web.api.access import Caller

__all__ = ["Token", "TokenAuth", "entry_of", "new_token", "read_tokens"]

log = logging.getLogger(__name__)

_PREFIX = "inc_"
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_FIELDS = ("name", "hash", "scopes", "namespaces", "expires", "vouches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token, which does not include the token.

    :param scopes: of ``read``, ``write`` and ``admin``; each has to be named.
    :param namespaces: of watermarks; None for all.
    :param expires: when it is refused from; None for never.
    :param vouches: whether its holder is trusted to name the person who acts.
    """

    name: str
    hash: str
    scopes: frozenset[Scope]
    namespaces: frozenset[str] | None = None
    expires: dt.datetime | None = None
    vouches: bool = False


def new_token() -> str:
    """Return a new token, to be shown once."""
    return _PREFIX + secrets.token_urlsafe(32)


def entry_of(
    token: str,
    name: str,
    scopes: list[Scope],
    *,
    namespaces: list[str] | None = None,
    expires: dt.datetime | None = None,
    vouches: bool = False,
) -> dict[str, Any]:
    """Return what the file of tokens has of a token."""
    entry: dict[str, Any] = {"name": name, "hash": _hash(token), "scopes": scopes}
    if namespaces is not None:
        entry["namespaces"] = namespaces
    if expires is not None:
        entry["expires"] = expires.isoformat()
    if vouches:
        entry["vouches"] = True
    return entry


def read_tokens(path: Path) -> dict[str, Token]:
    """Return the tokens of a file, by their hashes.

    :raises ConfigurationError: when it cannot be read, or says anything that is not understood.
    """
    try:
        entries = json.loads(path.read_text())["tokens"]
        tokens = [_token(entry, number) for number, entry in enumerate(entries, 1)]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        msg = (
            f"the file of tokens {path} cannot be used: {describe(error)}; `airflow-incremental api-token` makes one, "
            "and what somebody has written into it can be taken out with an editor"
        )
        raise ConfigurationError(msg) from error
    return {token.hash: token for token in tokens}


class TokenAuth:
    """Knows callers by the tokens of a file.

    :param path: the file, as ``airflow-incremental api-token`` writes it.
    :param clock: tells which tokens have expired.
    :raises ConfigurationError: when there is no token in it: a server does not start without.
    """

    def __init__(self, *, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._stamp = _stamp(path)
        self._tokens = read_tokens(path)
        if not self._tokens:
            msg = f"the file of tokens {path} has none, so nobody could call; `airflow-incremental api-token` adds one"
            raise ConfigurationError(msg)

    async def identify(self, request: Request) -> Caller:
        """Return who sent a request.

        :raises HTTPException: 401 when its token is missing, unknown or expired.
        """
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        token = given.strip() if kind.lower() == "bearer" else ""
        found = self._known().get(_hash(token)) if token else None
        if found is None or (found.expires is not None and found.expires <= self._clock.now()):
            raise HTTPException(401, _refusal(token, found), {"WWW-Authenticate": "Bearer"})
        return Caller(
            name=found.name, allows=found.scopes.__contains__, namespaces=found.namespaces, vouches=found.vouches
        )

    def _known(self) -> dict[str, Token]:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._tokens = read_tokens(self._path)
                log.info("read %s tokens of %s", len(self._tokens), self._path)
            except ConfigurationError as error:
                # Half written, or broken: who was known stays known, nobody new is let in.
                log.warning("going on with the tokens that were read before: %s", describe(error))
        return self._tokens


def _token(entry: dict[str, Any], number: int) -> Token:
    unknown = set(entry) - set(_FIELDS)
    scopes, namespaces, expires = entry["scopes"], entry.get("namespaces"), entry.get("expires")
    if unknown or not _HASH.fullmatch(entry["hash"]) or not entry["name"].strip() or not scopes:
        fields = ", ".join(_FIELDS)
        msg = f"token {number}: a token has fields {fields}, a hash of 64 hexadecimal digits, a name and a scope"
        raise ValueError(msg)
    if not isinstance(scopes, list) or not set(scopes) <= set(SCOPES):
        msg = f"scopes={scopes!r} of {entry['name']} are not some of {', '.join(SCOPES)}"
        raise ValueError(msg)
    if namespaces is not None and (
        not isinstance(namespaces, list) or not all(isinstance(each, str) for each in namespaces)
    ):
        msg = f"namespaces={namespaces!r} of {entry['name']} are not a list of names"
        raise ValueError(msg)
    return Token(
        name=entry["name"],
        hash=entry["hash"],
        scopes=frozenset(scopes),
        namespaces=None if namespaces is None else frozenset(namespaces),
        expires=None if expires is None else dt.datetime.fromisoformat(expires).astimezone(dt.UTC),
        vouches=entry.get("vouches") is True,
    )


def _hash(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _refusal(token: str, found: Token | None) -> str:
    if found is not None:
        return "the token has expired"
    if token:
        return "this token is not known here, or was taken out"
    return "no token was sent; send it in the header Authorization, after the word Bearer"
