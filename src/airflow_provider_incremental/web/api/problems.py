"""Refusals of the API itself, and how every error becomes a response."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa
from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from airflow_provider_incremental.core.errors import IncrementalError, StoreNotMigratedError, StoreUnavailableError
from airflow_provider_incremental.core.redact import describe
from airflow_provider_incremental.stores.api.problems import MEDIA_TYPE, problem, problem_of
from airflow_provider_incremental.stores.sql.failures import DatabaseFailedError
from airflow_provider_incremental.web.api.access import ForbiddenError

__all__ = ["ProblemError", "described", "of_database", "of_http", "of_ours", "of_unknown", "response"]

log = logging.getLogger(__name__)

# Where the database is and what to do about it is for whoever runs the server, not for its callers.
_BEHIND: dict[type[IncrementalError], str] = {
    StoreUnavailableError: "the API's server gets no answer from its own store now; its log says why",
    StoreNotMigratedError: (
        "the API's server runs, but its own store is not ready: its tables are missing or of another release; its log "
        "says which. Run `airflow-incremental db upgrade --store STORE` with the store that the API serves"
    ),
    DatabaseFailedError: "the API's server could not do it, since its own store failed; its log says how",
}

_AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)


class ProblemError(Exception):
    """A refusal.

    :param code: what a program tells it by.
    :param detail: what happened and what to do.
    """

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.problem = problem(status, code, detail)
        self.headers = dict(headers or {})


def described(error: Exception) -> dict[str, Any]:
    """Return the problem of an error; of one that nobody expected, the log has the rest."""
    if isinstance(error, ProblemError):
        return error.problem
    if isinstance(error, ForbiddenError):
        return problem(403, "forbidden", str(error))
    if isinstance(error, IncrementalError):
        return _of_ours(error)
    log.error("an operation failed in a way that nobody expected", exc_info=error)
    return problem(500, "internal", "the server met an error that is not the caller's; its log says which")


def _of_ours(error: IncrementalError) -> dict[str, Any]:
    told = next((detail for kind, detail in _BEHIND.items() if isinstance(error, kind)), None)
    if told is None:
        return problem_of(error)
    log.warning("the store behind this API: %s", describe(error))
    return problem_of(type(error)(told))


def response(found: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return the response of a problem."""
    return Response(json.dumps(found), status_code=found["status"], media_type=MEDIA_TYPE, headers=dict(headers or {}))


async def of_ours(_: Request, error: Exception) -> Response:
    """Handle an error of this package."""
    headers = dict(error.headers) if isinstance(error, ProblemError) else {}
    if isinstance(error, StoreUnavailableError):
        headers["Retry-After"] = "1"
    return response(described(error), headers)


async def of_http(_: Request, error: Exception) -> Response:
    """Handle what FastAPI and Airflow's authentication raise."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = str(error.detail) if isinstance(error, HTTPException) else ""
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers.setdefault("WWW-Authenticate", "Bearer")
    if status == HTTPStatus.NOT_FOUND:
        detail = "there is no such operation or path here: the server may be older than the client, or the path wrong"
    code = HTTPStatus(status).phrase.lower().replace(" ", "-")
    return response(problem(status, code, detail), headers)


async def of_database(request: Request, error: Exception) -> Response:
    """Handle an error of the database that knows the callers, as Airflow's does; the store's own are told by it."""
    if not isinstance(error, _AWAY) and not getattr(error, "connection_invalidated", False):
        return await of_unknown(request, error)
    log.warning("the database that knows the callers: %s", describe(error))
    detail = "the database by which the API's server knows its callers gives no answer now; the server's log says why"
    return response(problem_of(StoreUnavailableError(detail)), {"Retry-After": "1"})


async def of_unknown(_: Request, error: Exception) -> Response:
    """Handle what nobody expected."""
    return response(described(error))
