"""What users of Airflow may do over the API in its api-server, and what they are told when they may not."""

from __future__ import annotations

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

from airflow_provider_incremental.stores.api.operations import OPERATIONS, SCOPES
from airflow_provider_incremental.web.api import airflow_auth
from airflow_provider_incremental.web.api.access import ForbiddenError, permitted


@pytest.mark.parametrize(
    ("role", "scopes"), [("viewer", ["read"]), ("user", ["read"]), ("op", list(SCOPES)), ("admin", list(SCOPES))]
)
def test_roles_of_the_simple_auth_manager(monkeypatch: pytest.MonkeyPatch, role: str, scopes: list[str]) -> None:
    """Who only looks at assets only looks at watermarks."""
    monkeypatch.setattr(airflow_auth, "get_auth_manager", SimpleAuthManager)
    caller = airflow_auth._identify(SimpleAuthManagerUser(username="triggers", role=role))
    assert [scope for scope in SCOPES if caller.allows(scope)] == scopes


@pytest.mark.parametrize(
    ("operation", "right"), [("commit", "create asset events"), ("rewind", "edit assets"), ("load", "see assets")]
)
def test_a_refusal_names_a_right_that_airflow_grants(
    monkeypatch: pytest.MonkeyPatch, operation: str, right: str
) -> None:
    """Scopes are of tokens, which Airflow's users do not have."""
    monkeypatch.setattr(airflow_auth, "get_auth_manager", SimpleAuthManager)
    nobody = airflow_auth._identify(SimpleAuthManagerUser(username="nobody", role=None))
    with pytest.raises(ForbiddenError, match=f"nobody may not {operation}: it needs the right to {right}"):
        permitted(nobody, OPERATIONS[operation], {})
