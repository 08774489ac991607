"""At which revision a database is, and what to do when that is not the one that this release works with."""

from __future__ import annotations

import sqlalchemy as sa

from airflow_provider_incremental.core.errors import StoreNotMigratedError
from airflow_provider_incremental.migrations import HEAD, REVISIONS
from airflow_provider_incremental.stores.sql.engine import SETTING
from airflow_provider_incremental.stores.sql.failures import not_migrated
from airflow_provider_incremental.stores.sql.tables import version_table

__all__ = ["READ_REVISION", "current_revision", "refuse_newer", "require_head"]

READ_REVISION = sa.select(sa.table(version_table, sa.column("version_num")).c.version_num)


def current_revision(connection: sa.engine.Connection) -> str | None:
    """Return the revision that a database notes, or None when it has no tables of ours."""
    if not sa.inspect(connection).has_table(version_table):
        return None
    revision = connection.execute(READ_REVISION).scalar()
    return None if revision is None else str(revision)


def refuse_newer(revision: str | None, where: str) -> None:
    """Raise when a revision is none that this release knows.

    :param where: the database, as people may see it.
    :raises StoreNotMigratedError: naming the revision and the remedy.
    """
    if revision is None or revision in REVISIONS:
        return
    msg = (
        f"the store {where} is at revision {revision}, which a newer release made; this one knows up to {HEAD}. "
        f"Nothing was changed: upgrade airflow-provider-incremental here, or name another database in {SETTING}"
    )
    raise StoreNotMigratedError(msg)


def require_head(revision: str | None, where: str) -> None:
    """Raise unless a revision is the one that this release works with.

    :param where: the database, as people may see it.
    :raises StoreNotMigratedError: naming the setting and the command to run.
    """
    refuse_newer(revision, where)
    if revision is None:
        raise not_migrated(where, "it has no tables of airflow-provider-incremental")
    if revision != HEAD:
        raise not_migrated(where, f"its tables are at revision {revision}, this release works with {HEAD}")
