"""Lets ``airflow db migrate`` make and upgrade the store's tables in Airflow's own database.

Airflow 3.2 and later find it by the provider's metadata, earlier ones by ``[database] external_db_managers``.
"""

from __future__ import annotations

import sys
from typing import Any

import sqlalchemy as sa
from airflow.utils.db_manager import BaseDBManager

from airflow_provider_incremental.migrations import HEAD, RELEASES
from airflow_provider_incremental.migrations.current import current_revision
from airflow_provider_incremental.migrations.scripts import (
    CONFIGURATION,
    PLACE,
    downgrade_connection,
    offline,
    upgrade_connection,
)
from airflow_provider_incremental.stores.sql import tables

__all__ = ["IncrementalDBManager"]


class IncrementalDBManager(BaseDBManager):
    """Runs the same revisions as ``airflow-incremental db upgrade``, with Airflow's connection.

    Airflow would make the tables from their metadata when there are none, and call that the newest revision. We always
    run the revisions: they also write the store's identity, and find their own work when it is there.
    """

    metadata = tables.metadata
    migration_dir = str(PLACE)
    alembic_file = str(CONFIGURATION)
    version_table_name = tables.version_table
    supports_table_dropping = True
    revision_heads_map = RELEASES

    def initdb(self, use_migration_files: bool = False) -> None:
        """Make the tables, or upgrade them."""
        self.upgradedb()

    def create_db_from_orm(self) -> None:
        """Make the tables, by the revisions as well."""
        self.upgradedb()

    def upgradedb(
        self,
        to_revision: str | None = None,
        from_revision: str | None = None,
        show_sql_only: bool = False,
        use_migration_files: bool = False,
    ) -> None:
        """Upgrade the tables, or write the SQL that would do it."""
        target = to_revision or HEAD
        if show_sql_only:
            offline(self._dialect, f"{from_revision}:{target}" if from_revision else target, out=sys.stdout)
            return
        with self._begin() as connection:
            if upgrade_connection(connection, "of Airflow", target):
                self.log.info("The tables of airflow-provider-incremental are at revision %s now", target)

    def downgrade(self, to_revision: str, from_revision: str | None = None, show_sql_only: bool = False) -> None:
        """Downgrade the tables, or write the SQL that would do it."""
        if show_sql_only:
            offline(self._dialect, f"{from_revision or HEAD}:{to_revision}", down=True, out=sys.stdout)
            return
        with self._begin() as connection:
            downgrade_connection(connection, "of Airflow", to_revision)

    def check_migration(self) -> bool:
        """Whether the tables are at the revision that this release works with."""
        with self._begin() as connection:
            return current_revision(connection) == HEAD

    def drop_tables(self, connection: sa.engine.Connection) -> None:
        """Drop the tables with those of Airflow, for ``airflow db reset``."""
        tables.metadata.drop_all(connection)
        connection.execute(sa.text(f"DROP TABLE IF EXISTS {tables.version_table}"))

    @property
    def _dialect(self) -> str:
        return str(self.session.get_bind().dialect.name)

    def _begin(self) -> Any:
        """A connection beside the session's, whose transaction Airflow keeps to itself."""
        return self.session.get_bind().engine.begin()
