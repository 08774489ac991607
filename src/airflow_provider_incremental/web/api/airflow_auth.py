"""Callers as Airflow knows them: by its tokens and cookies, allowed what its auth manager lets them do with assets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends

from airflow_provider_incremental.stores.api.operations import Scope
from airflow_provider_incremental.web.api.access import Caller

__all__ = ["AirflowAuth"]

_METHODS: dict[Scope, Any] = {"read": "GET", "write": "POST", "admin": "PUT"}
"""What a user must be allowed to do with assets: see them; make events of them, as every write leads to; edit them."""

_RIGHTS: dict[Scope, str] = {
    "read": "the right to see assets",
    "write": "the right to create asset events (in FAB: can create on Assets)",
    "admin": "the right to edit assets (in FAB: can edit on Assets)",
}


def _identify(user: Annotated[Any, Depends(get_user)]) -> Caller:
    """Ask once, in a thread: an auth manager may look into its database for the answer."""
    manager = get_auth_manager()
    allowed = {scope for scope, method in _METHODS.items() if manager.is_authorized_asset(method=method, user=user)}
    return Caller(name=user.get_name(), allows=allowed.__contains__, right=_RIGHTS.__getitem__)


class AirflowAuth:
    """Airflow's own authentication, inside its api-server. A user without any right to assets may do nothing."""

    @property
    def identify(self) -> Callable[..., Any]:
        """A FastAPI dependency that returns the caller, or raises as Airflow's own routes do."""
        return _identify
