"""What a request may be before anybody looks at what it says: its size, its kind, its pace, where it comes from."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request

from airflow_provider_incremental.core.clock import Clock
from airflow_provider_incremental.web.api.problems import ProblemError

__all__ = ["Body", "Limits", "Pace", "json_body", "refuse_other_sites"]

_BIG = 100_000
_MOST_CALLERS = 10_000
_LONGEST_SHOWN = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one caller may ask for.

    :param request_bytes: the longest body of a request; a batch of items has to fit.
    :param operations: the most operations in one request.
    :param requests_per_second: of one caller, lasting; for a moment it may be twice as many.
    :param at_once: operations of one request that run at the same time.
    """

    request_bytes: int = 64 * 2**20
    operations: int = 200
    requests_per_second: float = 1000.0
    at_once: int = 8


class Pace:
    """Counts the requests of each caller: as many as the limit for a second, twice as many for a moment.

    :param clock: what time it is.
    """

    def __init__(self, *, limits: Limits, clock: Clock) -> None:
        self._rate = limits.requests_per_second
        self._clock = clock
        self._room: dict[str, tuple[float, float]] = {}

    def admit(self, caller: str) -> None:
        """Count a request.

        :raises ProblemError: when the caller has to wait.
        """
        now = self._clock.monotonic()
        room, since = self._room.pop(caller, (2 * self._rate, now))
        room = min(2 * self._rate, room + (now - since) * self._rate)
        self._room[caller] = (room - 1 if room >= 1 else room, now)
        if len(self._room) > _MOST_CALLERS:
            self._room.pop(next(iter(self._room)))
        if room < 1:
            detail = f"{caller} sends more than {self._rate:g} requests a second: send several operations in one"
            raise ProblemError(429, "too-many-requests", detail, {"Retry-After": "1"})


def refuse_other_sites(headers: Mapping[str, str], own: str) -> None:
    """Refuse what a browser sends on behalf of another site.

    Every present browser says in ``Sec-Fetch-Site`` whose page sends a request, which no page can change; an older one
    says it in ``Origin``. What is no browser says neither, and has no cookies that a page could misuse.

    :param own: host and port by which this server was asked.
    :raises ProblemError: when the page that sends it is not of this server.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    good = origin in (None, f"http://{own}", f"https://{own}") if site is None else site in ("same-origin", "none")
    if not good:
        raise ProblemError(403, "other-site", f"the request comes from another site ({origin}); this one is {own}")


@dataclass(frozen=True, slots=True)
class Body:
    """What a request's body says, and how many bytes it takes to say it."""

    value: Any
    size: int


async def json_body(request: Request, limits: Limits) -> Body:
    """Read a request's body.

    :raises ProblemError: when it is not JSON, or longer than allowed.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ProblemError(415, "not-json", f"content-type is {kind or 'missing'}; send application/json")
    body = await _bounded(request, limits.request_bytes)
    try:
        value = await asyncio.to_thread(_parsed, body) if len(body) > _BIG else _parsed(body)
    except (ValueError, RecursionError) as error:
        raise ProblemError(400, "malformed-json", f"the body cannot be read as JSON: {error}") from error
    return Body(value, len(body))


async def _bounded(request: Request, most: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    body = bytearray()
    if not declared.isdecimal() or int(declared) <= most:
        async for part in request.stream():
            body += part
            if len(body) > most:
                break
        else:
            return bytes(body)
    detail = f"the body has more than {most} bytes: let a poll find less, or raise the server's limit"
    raise ProblemError(413, "too-large", detail, {"Connection": "close"})


def _parsed(body: bytes) -> Any:
    return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        msg = f"the number {digits[:_LONGEST_SHOWN]} is beyond what a double can hold"
        raise ValueError(msg)
    return number


def _refuse_constant(name: str) -> None:
    msg = f"{name} is no JSON"
    raise ValueError(msg)
