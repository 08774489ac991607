"""What ``airflow-incremental notify`` does."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_incremental.sources.sql_notify import notify_ddl

__all__ = ["sql"]


def sql(given: Namespace) -> str:
    """Return the SQL with which a table of PostgreSQL notifies a channel; nothing is connected to."""
    return notify_ddl(given.table, given.channel).rstrip()
