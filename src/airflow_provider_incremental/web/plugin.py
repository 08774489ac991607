"""The plugin by which Airflow finds this package's pages; every Airflow process loads it, so it makes nothing yet."""

from __future__ import annotations

from importlib import import_module
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

    @classmethod
    def on_load(cls, *_: Any, **__: Any) -> None:
        """Leave the API out where ``[incremental] api`` says so. Airflow calls this once, before it mounts anything."""
        settings = import_module("airflow_provider_incremental.wiring.airflow")
        if not settings.flag("api", default=True):
            cls.fastapi_apps = [each for each in _APPS if each is not _API]
