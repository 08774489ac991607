"""The app: a route for each operation, one for many at once, one that says whether the store answers."""

from __future__ import annotations

from typing import Any, cast

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from airflow_provider_incremental import __version__
from airflow_provider_incremental.core.clock import Clock, SystemClock
from airflow_provider_incremental.core.errors import ConfigurationError, IncrementalError
from airflow_provider_incremental.core.store import WatermarkStore
from airflow_provider_incremental.stores.api.operations import OPERATIONS
from airflow_provider_incremental.web.api import description, problems
from airflow_provider_incremental.web.api.access import Auth, Caller
from airflow_provider_incremental.web.api.batch import run_batch
from airflow_provider_incremental.web.api.execution import Executor, ServedStore
from airflow_provider_incremental.web.api.health import Health
from airflow_provider_incremental.web.api.limits import Limits, Pace, json_body, refuse_other_sites

__all__ = ["VERSION", "create_app"]

VERSION = "v1"
"""Part of every path. A change that an older client would misunderstand gets another one."""

_JSON = "application/json"


def create_app(
    store: WatermarkStore, auth: Auth, *, limits: Limits | None = None, clock: Clock | None = None
) -> FastAPI:
    """Return the app that serves a store.

    :param store: the store; it must be able to do an operation once for a key (:class:`stores.once.DoesOnce`).
    :param auth: how the app knows its callers: nothing but its health answers anybody else.
    :param limits: how much a caller may ask for.
    :param clock: measures the pace of callers.
    :raises ConfigurationError: when the store cannot be served.

    Example::

        app = create_app(SqlStore(url="postgresql://..."), TokenAuth(path=Path("/etc/incremental/tokens.json")))
    """
    if not hasattr(store, "once"):
        msg = (
            f"{store!r} cannot be served by an API: it has no once(), by which a repeated request is done once, "
            "so that a lost answer would commit twice. Give its own address to triggers and tasks instead"
        )
        raise ConfigurationError(msg)
    limits, clock = limits or Limits(), clock or SystemClock()
    app = FastAPI(
        title="airflow-provider-incremental",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # to a place that the caller names as Host
    )
    for kind, handler in (
        (problems.ProblemError, problems.of_ours),
        (IncrementalError, problems.of_ours),
        (HTTPException, problems.of_http),
        (SQLAlchemyError, problems.of_database),
        (Exception, problems.of_unknown),
    ):
        app.add_exception_handler(kind, handler)
    admitted = _admitted(auth, Pace(limits=limits, clock=clock))
    _add_operations(app, Executor(store=cast(ServedStore, store)), admitted, limits)
    _add_about(app, Health(store=store, clock=clock), admitted)
    return app


def _admitted(auth: Auth, pace: Pace) -> Any:
    """Return the dependency of every route but one: who calls, from where, and not too often."""
    identified = Depends(auth.identify)

    async def admitted(request: Request, caller: Any = identified) -> Caller:
        refuse_other_sites(request.headers, request.url.netloc)
        pace.admit(caller.name)
        return cast(Caller, caller)

    return Depends(admitted)


def _add_operations(app: FastAPI, executor: Executor, admitted: Any, limits: Limits) -> None:
    def route_of(name: str) -> Any:
        async def run(request: Request, caller: Any = admitted) -> Response:
            body = await json_body(request, limits)
            key = request.headers.get("idempotency-key")
            return Response(await executor.run(caller, name, body.value, key, body.size), media_type=_JSON)

        return run

    async def batch(request: Request, caller: Any = admitted) -> Response:
        body = await json_body(request, limits)
        return Response(await run_batch(executor, caller, body.value, limits, body.size), media_type=_JSON)

    for name, operation in OPERATIONS.items():
        app.add_api_route(f"/{VERSION}/{name}", route_of(name), methods=["POST"], **description.of_operation(operation))
    app.add_api_route(f"/{VERSION}/batch", batch, methods=["POST"], **description.of_batch())


def _add_about(app: FastAPI, health: Health, admitted: Any) -> None:
    async def is_healthy() -> Response:
        if await health.good():
            return JSONResponse({"status": "healthy"})
        raise problems.ProblemError(503, "unhealthy", "the store does not answer; the server's log says why")

    async def openapi(_: Any = admitted) -> Response:
        return JSONResponse(description.complete(app.openapi()))

    app.add_api_route(f"/{VERSION}/health", is_healthy, methods=["GET"], **description.of_health())
    app.add_api_route(f"/{VERSION}/openapi.json", openapi, methods=["GET"], **description.of_itself())
