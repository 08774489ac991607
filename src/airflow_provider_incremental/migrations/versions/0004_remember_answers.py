"""Remember what was answered to requests, so that one that is repeated is not done again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from airflow_provider_incremental.migrations.steps import create_index, create_table

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
_TIME = (
    sa.DateTime(timezone=True)
    .with_variant(mysql.DATETIME(fsp=6), "mysql")
    .with_variant(mysql.DATETIME(fsp=6), "mariadb")
)
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def upgrade() -> None:
    """Make the table."""
    create_table(
        "asset_watermark_answers",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("answer", _TEXT, nullable=False),
        sa.Column("answered_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asset_watermark_answers"),
        comment="What was answered to requests of the last minutes: one that is repeated is answered, not done again",
        **_OPTIONS,
    )
    create_index("ix_asset_watermark_answers_answered_at", "asset_watermark_answers", ["answered_at"])


def downgrade() -> None:
    """Drop the table: what is repeated across the downgrade may be done twice."""
    op.drop_table("asset_watermark_answers")
