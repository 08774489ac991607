"""The triggers to use in an ``AssetWatcher``, and the one to extend. Their class paths are stored: they stay."""

from __future__ import annotations

from airflow_provider_incremental.triggers._base import IncrementalTrigger
from airflow_provider_incremental.triggers._s3_keys import S3KeyIncrementalTrigger
from airflow_provider_incremental.triggers._sql_rows import SQLIncrementalQueryTrigger

__all__ = ["IncrementalTrigger", "S3KeyIncrementalTrigger", "SQLIncrementalQueryTrigger"]
