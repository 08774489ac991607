"""Errors on their way: from an error of the store to a problem (RFC 9457) with a status, and back to the same error."""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_incremental.core import errors
from airflow_provider_incremental.core.errors import (
    BatchHeldError,
    ConfigurationError,
    ConflictError,
    IncrementalError,
    LeaseLostError,
    SourceError,
    StoreError,
    StoreNotMigratedError,
    StoreUnavailableError,
    UnsupportedValueError,
    WatchesAnotherSourceError,
    WrongStoreError,
)
from airflow_provider_incremental.core.redact import LOOKED_AT, without_secrets

__all__ = ["MEDIA_TYPE", "error_of", "problem", "problem_of", "status_of"]

MEDIA_TYPE = "application/problem+json"
_LONGEST = 10_000

_STATUS: dict[type[BaseException], int] = {
    ConflictError: 409,
    WatchesAnotherSourceError: 409,
    WrongStoreError: 409,
    LeaseLostError: 409,
    BatchHeldError: 409,
    ConfigurationError: 422,
    UnsupportedValueError: 422,
    SourceError: 422,
    StoreUnavailableError: 503,
    StoreNotMigratedError: 503,
    StoreError: 500,
    IncrementalError: 500,
}
_BY_CODE: dict[str, type[IncrementalError]] = {}


def status_of(error: IncrementalError) -> int:
    """Return the HTTP status of an error of ours; that of its nearest base when it has none of its own.

    >>> status_of(ConflictError())
    409
    """
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def problem_of(error: IncrementalError) -> dict[str, Any]:
    """Return the problem that tells of an error of ours."""
    return problem(status_of(error), _code(_public(type(error))), str(error))


def problem(status: int, code: str, detail: str) -> dict[str, Any]:
    """Return a problem.

    :param code: what a program tells it by.
    :param detail: what happened and what to do, for people.
    """
    return {
        "type": f"urn:airflow-provider-incremental:problem:{code}",
        "title": code.replace("-", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": without_secrets(detail[:LOOKED_AT])[:_LONGEST],  # what is cut in two is not shown
    }


def error_of(found: Any, where: str) -> IncrementalError:
    """Return the error that a problem tells of; one that this release does not know is a :class:`StoreError`.

    :param where: the server, for the message of what only client and server can get wrong.
    """
    fields = found if isinstance(found, dict) else {}
    code, detail = str(fields.get("code", "")), str(fields.get("detail", ""))
    kind = _known().get(code)
    if kind is not None:
        return kind(detail)
    status = fields.get("status")
    return StoreError(f"the store {where} refused ({status} {code or 'without a reason'}): {detail or 'see its log'}")


def _known() -> dict[str, type[IncrementalError]]:
    if not _BY_CODE:
        _BY_CODE.update({_code(kind): kind for kind in map(vars(errors).get, errors.__all__) if kind})
    return _BY_CODE


def _public(kind: type[BaseException]) -> type[BaseException]:
    """Return the nearest class that every client knows."""
    return next(each for each in kind.__mro__ if each in _known().values())


def _code(kind: type[BaseException]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__.removesuffix("Error")).lower()
