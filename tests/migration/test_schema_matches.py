"""The tables that the migrations make are the tables that the code expects, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import mysql

from airflow_provider_incremental.migrations import HEAD, RELEASES, REVISIONS
from airflow_provider_incremental.migrations.run import upgrade
from airflow_provider_incremental.migrations.scripts import CONFIGURATION
from airflow_provider_incremental.stores.sql.tables import metadata, version_table


def differences(connection: sa.engine.Connection, expected: sa.MetaData = metadata) -> list:
    """What Alembic would write into a new revision."""
    options = {"compare_type": True, "compare_server_default": True, "version_table": version_table}
    return compare_metadata(MigrationContext.configure(connection, opts=options), expected)


async def test_alembic_finds_no_difference(database, on):
    """Alembic compares the migrated tables with the code's, types and indexes included, and has nothing to add."""
    await upgrade(database)
    assert await on(database, differences) == []


async def test_the_database_itself_sees_no_difference(database, second_database, on, shape):
    """The database describes the migrated tables in the same words as tables made from the code: no detail differs."""
    await upgrade(database)
    await on(second_database, metadata.create_all)
    migrated, expected = await on(database, shape), await on(second_database, shape)
    assert migrated == expected
    assert set(expected) == set(metadata.tables)


def _changed(name: str) -> sa.MetaData:
    changed = sa.MetaData(naming_convention=metadata.naming_convention)
    for table in metadata.sorted_tables:
        table.to_metadata(changed)
    batches = changed.tables["asset_watermark_batches"]
    match name:
        case "column":
            batches.append_column(sa.Column("more", sa.Integer))
        case "length":
            batches.c.kind.type = sa.String(17)
        case "null":
            batches.c.low.nullable = False
        case "index":
            sa.Index("ix_more", batches.c.kind)
        case "precision":
            text = sa.Text().with_variant(mysql.DATETIME(fsp=3), "mysql")
            batches.c.committed_at.type = text
    return changed


@pytest.mark.parametrize("change", ["column", "length", "null", "index", "precision"])
async def test_a_difference_is_found(database, second_database, on, shape, change):
    """The comparison by description notices one column, length, NULL, index or precision that differs."""
    await on(database, metadata.create_all)
    await on(second_database, _changed(change).create_all)
    assert await on(database, shape) != await on(second_database, shape)


def test_revisions_are_one_line():
    """There is one head, and the revisions that the code knows are those that there are files for, in order."""
    scripts = ScriptDirectory.from_config(Config(str(CONFIGURATION)))
    assert scripts.get_heads() == [HEAD]
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)
    assert set(RELEASES.values()) <= set(REVISIONS)
