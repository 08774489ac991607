"""The plugin by which Airflow finds this package's pages; every Airflow process loads it, so it does nothing yet."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

__all__ = ["IncrementalPlugin"]


class IncrementalPlugin(AirflowPlugin):
    """Registered by the entry point ``airflow.plugins``."""

    name = "incremental"
