"""Keep when the next poll is meant to be, so that a watermark that nobody polls any more can be told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from airflow_provider_incremental.migrations.steps import add_column

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TIME = (
    sa.DateTime(timezone=True)
    .with_variant(mysql.DATETIME(fsp=6), "mysql")
    .with_variant(mysql.DATETIME(fsp=6), "mariadb")
)


def upgrade() -> None:
    """Add the column."""
    column = sa.Column("next_poll_at", _TIME, nullable=True, comment="when the trigger meant to poll again")
    add_column("asset_watermarks", column)


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("asset_watermarks", "next_poll_at")
