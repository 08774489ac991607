"""The tables of the store: the one truth that migrations are tested against. Their names are public.

A watermark's id is a hash of its name (:attr:`WatermarkKey.id`): names of 1,500 characters fit no index of MySQL, and
no collation decides which two are equal. Cursors and items are the JSON text of :mod:`core.values`. Times are UTC.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

__all__ = [
    "UtcDateTime",
    "answers",
    "batches",
    "claims",
    "consumers",
    "identity",
    "journal",
    "memories",
    "metadata",
    "version_table",
    "watermarks",
]

version_table = "asset_watermark_alembic_version"
"""Where Alembic notes the revision of these tables: apart from Airflow's own, which may share the database."""


if TYPE_CHECKING:
    _Decorator = sa.types.TypeDecorator[dt.datetime]
else:  # SQLAlchemy 1.4 has no generic types
    _Decorator = sa.types.TypeDecorator


class UtcDateTime(_Decorator):
    """An instant to the microsecond: aware in Python, UTC in the database, whatever any session's zone."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        """Take each database's type that keeps microseconds."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.DateTime(timezone=True))
        if dialect.name in ("mysql", "mariadb"):
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime())

    def process_bind_param(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        """Hand UTC to the database, without its zone where the type has none."""
        if value is None:
            return None
        value = value.astimezone(dt.UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        """Give every instant its zone back."""
        if value is None:
            return None
        return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


_LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mysql.LONGTEXT(), "mariadb")
_LongBytes = sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql").with_variant(mysql.LONGBLOB(), "mariadb")
_Id = sa.String(32)
_MYSQL = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
_MARIADB = {name.replace("mysql", "mariadb"): value for name, value in _MYSQL.items()}
_OPTIONS: dict[str, Any] = {**_MYSQL, **_MARIADB}


def _watermark_id(*, primary_key: bool = True) -> sa.Column[Any]:
    cascade = sa.ForeignKey("asset_watermarks.id", ondelete="CASCADE")
    return sa.Column("watermark_id", _Id, cascade, primary_key=primary_key, nullable=False)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

identity = sa.Table(
    "asset_watermark_store",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("identity", sa.String(36), nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    comment="One row: the identity of this store, which travels in every announcement",
    **_OPTIONS,
)

watermarks = sa.Table(
    "asset_watermarks",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("asset_name", sa.String(1500), nullable=False),
    sa.Column("asset_hash", _Id, nullable=False, index=True),
    sa.Column("namespace", sa.String(250), nullable=False),
    sa.Column("key", sa.String(250), nullable=False),
    sa.Column("cursor", _LongText, nullable=True, comment="JSON; NULL is the very start of the source"),
    sa.Column("version", sa.BigInteger, nullable=False, comment="counts moves; the compare-and-swap is on it"),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("reread_after_seq", sa.BigInteger, nullable=False),
    sa.Column("watches_source", _LongText, nullable=True),
    sa.Column("watches_cursor", _LongText, nullable=True),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("moved_at", UtcDateTime, nullable=True),
    sa.Column("last_poll_at", UtcDateTime, nullable=True),
    sa.Column("last_error", _LongText, nullable=True),
    sa.Column("last_error_at", UtcDateTime, nullable=True),
    sa.Column("failures", sa.BigInteger, nullable=False),
    sa.Column("conflicts", sa.BigInteger, nullable=False),
    sa.Column("late_skipped", sa.BigInteger, nullable=False),
    sa.Column("note", _LongText, nullable=True),
    sa.Column("announced_at", UtcDateTime, nullable=True, comment="when the last announcement began"),
    sa.Column("announced_seq", sa.BigInteger, nullable=False, comment="batches up to here were announced"),
    sa.Column("next_poll_at", UtcDateTime, nullable=True, comment="when the trigger meant to poll again"),
    comment="How far each source has been read",
    **_OPTIONS,
)

batches = sa.Table(
    "asset_watermark_batches",
    metadata,
    _watermark_id(),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", _Id, nullable=False, unique=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("low", _LongText, nullable=True),
    sa.Column("high", _LongText, nullable=True),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("items", _LongText, nullable=False),
    sa.Column("items_bytes", sa.BigInteger, nullable=False),
    sa.Column("fingerprints", _LongBytes, nullable=False, comment="16 bytes an item; for the lateness window"),
    sa.Column("committed_at", UtcDateTime, nullable=False),
    sa.Column("announced_at", UtcDateTime, nullable=True, comment="NULL until Airflow has stored an event for it"),
    sa.Index("ix_asset_watermark_batches_unannounced", "watermark_id", "announced_at", "seq"),
    comment="The batch log: every slice that was found, in order",
    **_OPTIONS,
)

consumers = sa.Table(
    "asset_watermark_consumers",
    metadata,
    _watermark_id(),
    sa.Column("consumer", sa.String(250), primary_key=True),
    sa.Column("start_seq", sa.BigInteger, nullable=False, comment="batches up to here are not for this consumer"),
    sa.Column("done_seq", sa.BigInteger, nullable=False, comment="every batch up to here is acknowledged"),
    sa.Column("first_seen_at", UtcDateTime, nullable=False),
    sa.Column("last_seen_at", UtcDateTime, nullable=False),
    comment="Who processes the batches of a watermark",
    **_OPTIONS,
)

claims = sa.Table(
    "asset_watermark_claims",
    metadata,
    _watermark_id(),
    sa.Column("consumer", sa.String(250), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False, comment="claimed, released, acknowledged or dead"),
    sa.Column("holder", sa.String(1000), nullable=False),
    sa.Column("attempt", sa.BigInteger, nullable=False),
    sa.Column("claimed_at", UtcDateTime, nullable=False),
    sa.Column("lease_until", UtcDateTime, nullable=False),
    sa.Column("acknowledged_at", UtcDateTime, nullable=True),
    sa.Column("last_error", _LongText, nullable=True),
    comment="What each consumer has done with each batch",
    **_OPTIONS,
)

# In byte order everywhere: a source reads its pieces in the order of their names, and merges them with what it lists.
_PieceName = sa.String(250).with_variant(postgresql.VARCHAR(250, collation="C"), "postgresql")

memories = sa.Table(
    "asset_watermark_memories",
    metadata,
    _watermark_id(),
    sa.Column("name", _PieceName, primary_key=True),
    sa.Column("piece", _LongBytes, nullable=False),
    comment="What each source remembers beside its cursor",
    **_OPTIONS,
)

journal = sa.Table(
    "asset_watermark_journal",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("watermark_id", _Id, nullable=False),
    sa.Column("asset_name", sa.String(1500), nullable=False),
    sa.Column("namespace", sa.String(250), nullable=False),
    sa.Column("key", sa.String(250), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("operation", sa.String(32), nullable=False),
    sa.Column("detail", _LongText, nullable=False),
    sa.Column("who", _LongText, nullable=False),
    sa.Column("why", _LongText, nullable=True),
    sa.Index("ix_asset_watermark_journal_watermark_id_id", "watermark_id", "id"),
    comment="What people changed by hand; it outlives the watermarks",
    **_OPTIONS,
)

answers = sa.Table(
    "asset_watermark_answers",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("answer", _LongText, nullable=False),
    sa.Column("answered_at", UtcDateTime, nullable=False, index=True),
    comment="What was answered to requests of the last minutes: one that is repeated is answered, not done again",
    **_OPTIONS,
)
