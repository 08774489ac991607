"""What the OpenAPI document says of each route: its arguments, its answer, and every problem it may answer with."""

from __future__ import annotations

from typing import Any

from airflow_provider_incremental.stores.api.operations import OPERATIONS, Operation
from airflow_provider_incremental.stores.api.problems import MEDIA_TYPE
from airflow_provider_incremental.stores.api.value_schema import COMPONENTS
from airflow_provider_incremental.web.api.batch import ENTRY

__all__ = ["complete", "of_batch", "of_health", "of_itself", "of_operation"]

_JSON = "application/json"
_PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "what a program tells the problem by"},
        "detail": {"type": "string", "description": "what happened, and what to do"},
    },
    "required": ["type", "title", "status", "code", "detail"],
}
_ANYWHERE = {
    401: "no credentials, or expired or unknown ones",
    403: "credentials that do not allow this, or a request from another site",
    429: "too many requests of this caller: wait as long as Retry-After says",
    500: "an error of the server, which its log describes",
}
_WITH_BODY = {
    400: "a body that is not JSON, or no idempotency key where one is needed",
    413: "a body that is too long",
    415: "a body whose content type is not application/json",
    422: "arguments that the operation does not take; the detail names them",
}
_OF_STORE = {
    409: "a conflict with what others did: nothing was changed; the code says which",
    503: "a store that cannot be reached, or whose tables are not those of this release: the code says which",
}
_KEY = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]{1,255}$"}


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with what the schemas of its routes refer to."""
    components = document.get("components", {})
    return document | {"components": components | {"schemas": components.get("schemas", {}) | COMPONENTS}}


def of_operation(operation: Operation) -> dict[str, Any]:
    """Describe the route of an operation, in the words of the store's protocol."""
    extra: dict[str, Any] = {"requestBody": _body(operation.schema)}
    if operation.mutates:
        says = "Of your own choice, a new one for each operation: one that is repeated with it is not done again."
        key = {"name": "Idempotency-Key", "in": "header", "required": True, "schema": _KEY, "description": says}
        extra["parameters"] = [key]
    return {
        "operation_id": operation.name,
        "summary": operation.says.partition("\n")[0],
        "description": f"Needs the scope `{operation.scope}`.\n\n{operation.says}",
        "openapi_extra": extra,
        "responses": _responses(operation.answer.schema, _ANYWHERE | _WITH_BODY | _OF_STORE),
    }


def of_batch() -> dict[str, Any]:
    """Describe the route of many operations."""
    entry = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "examples": sorted(OPERATIONS)},
            "arguments": {"description": "as the operation's own route takes them"},
            "idempotency_key": {"type": "string", "description": "where the operation changes something"},
        },
        "required": list(ENTRY[:2]),
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {"operations": {"type": "array", "items": entry}},
        "required": ["operations"],
        "additionalProperties": False,
    }
    result = {
        "type": "object",
        "properties": {"status": {"type": "integer"}, "answer": {}, "problem": _PROBLEM},
        "required": ["status"],
    }
    results = {
        "type": "object",
        "properties": {"results": {"type": "array", "items": result}},
        "required": ["results"],
    }
    return {
        "operation_id": "batch",
        "summary": "Run many operations, each a transaction with a result of its own",
        "openapi_extra": {"requestBody": _body(schema)},
        "responses": _responses(results, _ANYWHERE | _WITH_BODY),
    }


def of_health() -> dict[str, Any]:
    """Describe the one route that answers everybody."""
    status = {"type": "object", "properties": {"status": {"const": "healthy"}}, "required": ["status"]}
    return {
        "operation_id": "health",
        "summary": "Whether the store answers; for everybody",
        "responses": _responses(status, {503: "a store that does not answer; the server's log says why"}),
    }


def of_itself() -> dict[str, Any]:
    """Describe the route of this description."""
    return {
        "operation_id": "openapi",
        "summary": "This description",
        "responses": _responses({"type": "object"}, _ANYWHERE),
    }


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {_JSON: {"schema": schema}}}


def _responses(answer: dict[str, Any], problems: dict[int, str]) -> dict[int | str, dict[str, Any]]:
    done = {"description": "what the operation returned", "content": {_JSON: {"schema": answer}}}
    failed: dict[int | str, dict[str, Any]] = {
        status: {"description": says, "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
        for status, says in sorted(problems.items())
    }
    return {200: done, **failed}
