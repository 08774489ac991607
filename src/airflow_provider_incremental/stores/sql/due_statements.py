"""The statements that find what is due for announcement: what was never confirmed, and what nobody came for since."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.stores.sql.dialects import Dialect
from airflow_provider_incremental.stores.sql.statements import (
    AHEAD,
    FINISHED,
    FOR_CONSUMERS,
    MOST,
    NOW,
    SEEN_AFTER,
    SETTLED,
    THIS_LOG,
    batch_columns,
)
from airflow_provider_incremental.stores.sql.tables import UtcDateTime, batches, claims, consumers, watermarks

__all__ = ["SELECT_LAGGING", "SELECT_UNACKNOWLEDGED", "select_holding", "select_unconfirmed"]

w, b, c = watermarks.c, batches.c, consumers.c
_bind = sa.bindparam


def select_unconfirmed(dialect: Dialect) -> sa.sql.Select[Any]:
    """Read what was never confirmed, by the index on it and in its order: nothing is sorted, nothing is skipped."""
    rows = sa.select(*batch_columns).where(THIS_LOG, b.announced_at.is_(None), FOR_CONSUMERS, ~SETTLED)
    # All of these are NULL. One database knows no order of the index without them, the other one none with them.
    order = [b.seq] if dialect.null_is_constant else [b.announced_at, b.seq]
    # MariaDB takes the primary key while its statistics know of no announced batch.
    hint = "FORCE INDEX (ix_asset_watermark_batches_unannounced)"
    return rows.order_by(*order).limit(MOST).with_hint(batches, hint, "mysql")


_held, _owed, _settled_for = claims.alias("held"), consumers.alias("owed"), claims.alias("settled_for")
SELECT_LAGGING = (
    sa.select(c.consumer, c.done_seq)
    .select_from(consumers.join(watermarks, w.id == c.watermark_id))
    .where(
        c.watermark_id == _bind("watermark"),
        c.done_seq < w.last_seq,
        c.last_seen_at > SEEN_AFTER,
    )
    .order_by(c.consumer)
)


@lru_cache
def select_holding(count: int) -> sa.sql.Select[Any] | sa.sql.CompoundSelect[Any]:
    """Read which of several consumers hold a lease, each looked up above what it has finished.

    Bound one by one: of a condition that compares two tables, MySQL makes no range of an index.
    """
    each = []
    for number in range(count):
        of_one = (
            sa.select(_held.c.consumer)
            .where(
                _held.c.watermark_id == _bind("watermark"),
                _held.c.consumer == _bind(f"consumer{number}"),
                _held.c.seq > _bind(f"done{number}"),
                _held.c.state == "claimed",
                _held.c.lease_until > NOW,
                _held.c.claimed_at <= AHEAD,
            )
            .order_by(_held.c.seq)
            .limit(1)
            .subquery(f"h{number}")
        )
        each.append(sa.select(of_one))
    return each[0] if count == 1 else sa.union_all(*each)


# Values and no EXISTS: of that, PostgreSQL makes joins, and reads a log or its claims as a whole.
_settled_seq = (
    sa.select(_settled_for.c.seq)
    .where(
        _settled_for.c.watermark_id == _bind("watermark"),
        _settled_for.c.consumer == _owed.c.consumer,
        _settled_for.c.seq == b.seq,
        # What failed may have to wait before it is tried again.
        sa.or_(
            _settled_for.c.state.in_(FINISHED),
            sa.and_(_settled_for.c.lease_until > NOW, _settled_for.c.claimed_at <= AHEAD),
        ),
    )
    .correlate(batches, _owed)
    .scalar_subquery()
)
_somebody_lags = (
    sa.select(_owed.c.done_seq)
    .where(
        _owed.c.watermark_id == _bind("watermark"),
        _owed.c.consumer.in_(_bind("lagging", expanding=True)),
        _owed.c.done_seq < b.seq,
        _settled_seq.is_(None),
    )
    .limit(1)
    .correlate(batches)
    .scalar_subquery()
)
SELECT_UNACKNOWLEDGED = (
    sa.select(*batch_columns)
    .where(
        THIS_LOG,
        b.seq > _bind("done"),
        sa.or_(b.announced_at <= _bind("announced_before", type_=UtcDateTime()), b.announced_at > AHEAD),
        FOR_CONSUMERS,
        _somebody_lags.is_not(None),
    )
    .order_by(b.seq)
    .limit(MOST)
)
