"""Alembic's environment: our tables and our version table only, on the connection that the caller gives."""

from __future__ import annotations

from alembic import context

from airflow_provider_incremental.stores.sql.tables import metadata, version_table

if context.is_offline_mode():
    context.configure(
        dialect_name=context.config.attributes["dialect"],
        target_metadata=metadata,
        version_table=version_table,
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
    )
else:
    context.configure(
        connection=context.config.attributes["connection"], target_metadata=metadata, version_table=version_table
    )

with context.begin_transaction():
    context.run_migrations()
