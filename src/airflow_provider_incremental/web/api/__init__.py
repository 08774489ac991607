"""The API: the store's operations over HTTP, inside Airflow's api-server or alone."""

from __future__ import annotations

from airflow_provider_incremental.web.api.access import Auth, Caller
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.web.api.limits import Limits

__all__ = ["Auth", "Caller", "Limits", "create_app"]
