"""Makes the app for Airflow's api-server: Airflow's users, and the store that the API serves there."""

from __future__ import annotations

from fastapi import FastAPI

from airflow_provider_incremental.migrations.run import upgrade_embedded
from airflow_provider_incremental.stores.registry import make_store
from airflow_provider_incremental.web.api.airflow_auth import AirflowAuth
from airflow_provider_incremental.web.api.app import create_app
from airflow_provider_incremental.wiring.stores import embedded_path, is_embedded, served_store_url

__all__ = ["make_app"]


def make_app() -> FastAPI:
    """Return the app.

    :raises ConfigurationError: when no store is to be had.
    """
    url = served_store_url()
    if is_embedded(url):
        upgrade_embedded(embedded_path())
    return create_app(make_store(url), AirflowAuth())
