"""Incremental triggers for Airflow 3: new S3 objects and SQL rows reach every consuming DAG, once."""

from __future__ import annotations

__version__ = "0.1.0"
