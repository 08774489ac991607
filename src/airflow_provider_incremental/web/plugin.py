"""The plugin by which Airflow finds this package's pages; every Airflow process loads it, so it makes nothing yet."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_incremental.web.api.mounted import MountedApp

__all__ = ["IncrementalPlugin"]


_API: dict[str, Any] = {
    "name": "incremental-api",
    "url_prefix": "/incremental/api",
    "app": MountedApp("airflow_provider_incremental.web.api.in_airflow:make_app"),
}
_APPS = [_API]


class IncrementalPlugin(AirflowPlugin):
    """Registered by the entry point ``airflow.plugins``."""

    name = "incremental"
    fastapi_apps = _APPS
