"""Let sources remember more than a cursor: named pieces of bytes for each watermark."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

from airflow_provider_incremental.migrations.steps import create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql").with_variant(mysql.LONGBLOB(), "mariadb")
_NAME = sa.String(250).with_variant(postgresql.VARCHAR(250, collation="C"), "postgresql")
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def upgrade() -> None:
    """Make the table."""
    create_table(
        "asset_watermark_memories",
        sa.Column("watermark_id", sa.String(32), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("piece", _BYTES, nullable=False),
        sa.ForeignKeyConstraint(
            ["watermark_id"],
            ["asset_watermarks.id"],
            name="fk_asset_watermark_memories_watermark_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("watermark_id", "name", name="pk_asset_watermark_memories"),
        comment="What each source remembers beside its cursor",
        **_OPTIONS,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("asset_watermark_memories")
