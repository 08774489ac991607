"""Let sources remember more than a cursor, set batches aside as dead, and keep a journal of what people change."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql, postgresql

from airflow_provider_incremental.migrations.steps import create_index, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql").with_variant(mysql.LONGBLOB(), "mariadb")
_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
_TIME = (
    sa.DateTime(timezone=True)
    .with_variant(mysql.DATETIME(fsp=6), "mysql")
    .with_variant(mysql.DATETIME(fsp=6), "mariadb")
)
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.String(250).with_variant(postgresql.VARCHAR(250, collation="C"), "postgresql")
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


_STATE_BEFORE = "claimed, released or acknowledged"
_STATE = "claimed, released, acknowledged or dead"


def upgrade() -> None:
    """Make the tables."""
    _create_memories()
    _create_journal()
    _describe_state(_STATE_BEFORE, _STATE)


def downgrade() -> None:
    """Drop the tables; what is dead waits again."""
    op.execute("UPDATE asset_watermark_claims SET state = 'released' WHERE state = 'dead'")
    _describe_state(_STATE, _STATE_BEFORE)
    op.drop_table("asset_watermark_journal")
    op.drop_table("asset_watermark_memories")


def _create_memories() -> None:
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


def _create_journal() -> None:
    create_table(
        "asset_watermark_journal",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("watermark_id", sa.String(32), nullable=False),
        sa.Column("asset_name", sa.String(1500), nullable=False),
        sa.Column("namespace", sa.String(250), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("operation", sa.String(32), nullable=False),
        sa.Column("detail", _TEXT, nullable=False),
        sa.Column("who", _TEXT, nullable=False),
        sa.Column("why", _TEXT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_asset_watermark_journal"),
        comment="What people changed by hand; it outlives the watermarks",
        **_OPTIONS,
    )
    create_index("ix_asset_watermark_journal_watermark_id_id", "asset_watermark_journal", ["watermark_id", "id"])


def _describe_state(before: str, now: str) -> None:
    if op.get_context().dialect.name == "sqlite":  # knows no comments
        return
    op.alter_column(
        "asset_watermark_claims",
        "state",
        existing_type=sa.String(16),
        existing_nullable=False,
        existing_comment=before,
        comment=now,
    )
