"""Create the store: watermarks, the batch log, consumers, claims, and the store's identity."""

from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from airflow_provider_incremental.migrations.steps import create_index, create_table, offline

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
_BYTES = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql").with_variant(mysql.LONGBLOB(), "mariadb")
_TIME = (
    sa.DateTime(timezone=True)
    .with_variant(mysql.DATETIME(fsp=6), "mysql")
    .with_variant(mysql.DATETIME(fsp=6), "mariadb")
)
_ID = sa.String(32)
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mysql", "mariadb")
    for name, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}

# What no driver can bind, since it may be run from a file: every database that runs it gets an identity of its own.
_NEW_IDENTITY = {
    "postgresql": "CAST(gen_random_uuid() AS VARCHAR)",
    "mysql": "UUID()",
    "sqlite": (
        "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' || "
        "substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
    ),
}
_NOW = {
    "postgresql": "CURRENT_TIMESTAMP",
    "mysql": "UTC_TIMESTAMP(6)",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f000', 'now')",
}


def upgrade() -> None:
    """Make the tables, and the row that tells this store from every other."""
    _create_identity()
    _create_watermarks()
    _create_batches()
    _create_consumers()
    _create_claims()


def downgrade() -> None:
    """Drop the tables, those that refer to others first."""
    for table in (
        "asset_watermark_claims",
        "asset_watermark_consumers",
        "asset_watermark_batches",
        "asset_watermarks",
        "asset_watermark_store",
    ):
        op.drop_table(table)


def _create_identity() -> None:
    create_table(
        "asset_watermark_store",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.String(36), nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_asset_watermark_store"),
        comment="One row: the identity of this store, which travels in every announcement",
        **_OPTIONS,
    )
    store = sa.table("asset_watermark_store", sa.column("id"), sa.column("identity"), sa.column("created_at"))
    if not offline() and op.get_bind().execute(sa.select(store.c.id)).first():
        return
    dialect = op.get_context().dialect.name.replace("mariadb", "mysql")
    identity = sa.text(_NEW_IDENTITY[dialect]) if offline() else sa.literal(str(uuid.uuid4()))
    row = sa.select(sa.text("1"), identity, sa.text(_NOW[dialect]))
    op.execute(sa.insert(store).from_select(["id", "identity", "created_at"], row))


def _create_watermarks() -> None:
    create_table(
        "asset_watermarks",
        sa.Column("id", _ID, nullable=False),
        sa.Column("asset_name", sa.String(1500), nullable=False),
        sa.Column("asset_hash", _ID, nullable=False),
        sa.Column("namespace", sa.String(250), nullable=False),
        sa.Column("key", sa.String(250), nullable=False),
        sa.Column("cursor", _TEXT, nullable=True, comment="JSON; NULL is the very start of the source"),
        sa.Column("version", sa.BigInteger(), nullable=False, comment="counts moves; the compare-and-swap is on it"),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("reread_after_seq", sa.BigInteger(), nullable=False),
        sa.Column("watches_source", _TEXT, nullable=True),
        sa.Column("watches_cursor", _TEXT, nullable=True),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("moved_at", _TIME, nullable=True),
        sa.Column("last_poll_at", _TIME, nullable=True),
        sa.Column("last_error", _TEXT, nullable=True),
        sa.Column("last_error_at", _TIME, nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("conflicts", sa.BigInteger(), nullable=False),
        sa.Column("late_skipped", sa.BigInteger(), nullable=False),
        sa.Column("note", _TEXT, nullable=True),
        sa.Column("announced_at", _TIME, nullable=True, comment="when the last announcement began"),
        sa.Column("announced_seq", sa.BigInteger(), nullable=False, comment="batches up to here were announced"),
        sa.PrimaryKeyConstraint("id", name="pk_asset_watermarks"),
        comment="How far each source has been read",
        later=("next_poll_at",),
        **_OPTIONS,
    )
    create_index("ix_asset_watermarks_asset_hash", "asset_watermarks", ["asset_hash"])


def _of_watermark(table: str) -> tuple[sa.Column[Any], sa.ForeignKeyConstraint]:
    return (
        sa.Column("watermark_id", _ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["watermark_id"], ["asset_watermarks.id"], name=f"fk_{table}_watermark_id", ondelete="CASCADE"
        ),
    )


def _create_batches() -> None:
    create_table(
        "asset_watermark_batches",
        *_of_watermark("asset_watermark_batches"),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", _ID, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("low", _TEXT, nullable=True),
        sa.Column("high", _TEXT, nullable=True),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("items", _TEXT, nullable=False),
        sa.Column("items_bytes", sa.BigInteger(), nullable=False),
        sa.Column("fingerprints", _BYTES, nullable=False, comment="16 bytes an item; for the lateness window"),
        sa.Column("committed_at", _TIME, nullable=False),
        sa.Column("announced_at", _TIME, nullable=True, comment="NULL until Airflow has stored an event for it"),
        sa.PrimaryKeyConstraint("watermark_id", "seq", name="pk_asset_watermark_batches"),
        sa.UniqueConstraint("id", name="uq_asset_watermark_batches_id"),
        comment="The batch log: every slice that was found, in order",
        **_OPTIONS,
    )
    create_index(
        "ix_asset_watermark_batches_unannounced", "asset_watermark_batches", ["watermark_id", "announced_at", "seq"]
    )


def _create_consumers() -> None:
    create_table(
        "asset_watermark_consumers",
        *_of_watermark("asset_watermark_consumers"),
        sa.Column("consumer", sa.String(250), nullable=False),
        sa.Column("start_seq", sa.BigInteger(), nullable=False, comment="batches up to here are not for this consumer"),
        sa.Column("done_seq", sa.BigInteger(), nullable=False, comment="every batch up to here is acknowledged"),
        sa.Column("first_seen_at", _TIME, nullable=False),
        sa.Column("last_seen_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("watermark_id", "consumer", name="pk_asset_watermark_consumers"),
        comment="Who processes the batches of a watermark",
        **_OPTIONS,
    )


def _create_claims() -> None:
    create_table(
        "asset_watermark_claims",
        *_of_watermark("asset_watermark_claims"),
        sa.Column("consumer", sa.String(250), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, comment="claimed, released or acknowledged"),
        sa.Column("holder", sa.String(1000), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", _TIME, nullable=False),
        sa.Column("lease_until", _TIME, nullable=False),
        sa.Column("acknowledged_at", _TIME, nullable=True),
        sa.Column("last_error", _TEXT, nullable=True),
        sa.PrimaryKeyConstraint("watermark_id", "consumer", "seq", name="pk_asset_watermark_claims"),
        comment="What each consumer has done with each batch",
        **_OPTIONS,
    )
