"""The statements of consumers and claims. The ones of watermarks and the batch log are in :mod:`statements`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.dml import Insert

from airflow_provider_incremental.stores.sql.dialects import Dialect
from airflow_provider_incremental.stores.sql.statements import (
    AHEAD,
    CLAIM_OF_BATCH,
    FOR_CONSUMERS,
    MOST,
    NOW,
    PAYLOAD,
    THIS_LOG,
    UNFINISHED,
    batch_and_claim_above,
    batch_columns,
)
from airflow_provider_incremental.stores.sql.tables import UtcDateTime, batches, claims, consumers, watermarks

w, b, c, k = watermarks.c, batches.c, consumers.c, claims.c
_bind = sa.bindparam
_batch_and_claim = batches.outerjoin(claims, CLAIM_OF_BATCH)
FREE = sa.or_(
    k.state.is_(None),
    sa.and_(k.state.in_(("claimed", "released")), sa.or_(k.lease_until <= NOW, k.claimed_at > AHEAD)),
)
# A holder whose lease ran out unnoticed still has the batch in its hands: it would process it a second time.
_NOT_MINE = sa.or_(k.state.is_(None), k.state != "claimed", k.holder != _bind("claimer"))

SELECT_SUBSCRIPTIONS = (
    sa.select(w.id, w.asset_name, w.namespace, w.key, w.last_seq, c.consumer, c.done_seq, c.first_seen_at)
    .select_from(watermarks.join(consumers, w.id == c.watermark_id))
    .where(w.asset_hash == _bind("asset_hash_"), c.consumer == _bind("consumer"))
)
SELECT_UNFINISHED_SUBSCRIPTIONS = SELECT_SUBSCRIPTIONS.where(c.done_seq < w.last_seq)
SELECT_NAMED_SEQS = sa.select(b.watermark_id, b.seq).where(b.id.in_(_bind("ids", expanding=True)))
TOUCH_CONSUMERS = (
    sa.update(consumers)
    .where(c.watermark_id.in_(_bind("watermarks_", expanding=True)), c.consumer == _bind("consumer_"))
    .values(last_seen_at=NOW)
)


def insert_consumer(dialect: Dialect) -> Insert:
    """Make a consumer known on a watermark unless it is."""
    return dialect.insert_if_absent(consumers)


@lru_cache
def select_waiting(watermark_count: int, *, held_too: bool) -> sa.sql.Select[Any] | sa.sql.CompoundSelect[Any]:
    """Read the oldest batches that wait for a consumer, from the log of each of several watermarks.

    Each log is read from where the consumer has finished everything, by its primary key, and only so far as is asked.
    """
    wanted = UNFINISHED if held_too else sa.and_(FREE, _NOT_MINE)
    each = []
    for number in range(watermark_count):
        done: sa.sql.elements.BindParameter[Any] = _bind(f"done{number}")
        rows = (
            sa.select(*batch_columns, k.state, k.holder, k.attempt, k.lease_until, k.claimed_at)
            .select_from(batch_and_claim_above(done))
            .where(
                b.watermark_id == _bind(f"watermark{number}"),
                b.seq > done,
                FOR_CONSUMERS,
                wanted,
            )
            .order_by(b.seq)
            .limit(MOST)
            .subquery(f"w{number}")
        )
        each.append(sa.select(rows))
    return each[0] if watermark_count == 1 else sa.union_all(*each)


SELECT_NAMED_WAITING = (
    sa.select(*batch_columns, k.state, k.holder, k.attempt)
    .select_from(_batch_and_claim)
    .where(b.id == _bind("batch"), FOR_CONSUMERS, FREE, _NOT_MINE)
)


def insert_claim(dialect: Dialect) -> Insert:
    """Take a batch that the consumer has never taken, unless somebody is faster."""
    return dialect.insert_if_absent(claims)


THIS_CLAIM = sa.and_(k.watermark_id == _bind("watermark"), k.consumer == _bind("consumer_"), k.seq == _bind("seq_"))
_held_by = sa.and_(THIS_CLAIM, k.holder == _bind("holder_"))
_until = _bind("until", type_=UtcDateTime())

TAKE_OVER = (
    sa.update(claims)
    .where(THIS_CLAIM, k.attempt == _bind("attempt_"), k.holder == _bind("holder_"), FREE)
    .values(state="claimed", holder=_bind("taker"), attempt=k.attempt + 1, claimed_at=NOW, lease_until=_until)
)
SELECT_ITEMS = sa.select(b.id, PAYLOAD).where(THIS_LOG, b.seq == _bind("seq_"))
RENEW = sa.update(claims).where(_held_by, k.state == "claimed").values(lease_until=_until, claimed_at=NOW)
RELEASE = (
    sa.update(claims)
    .where(_held_by, k.state == "claimed")
    .values(
        state=_bind("becomes"),
        lease_until=_until,
        claimed_at=NOW,
        attempt=k.attempt - _bind("uncounted", type_=sa.Integer()),
        last_error=_bind("error"),
    )
)
LOCK_CONSUMER = (
    sa.update(consumers)
    .where(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"))
    .values(last_seen_at=NOW)
)
ACKNOWLEDGE = (
    sa.update(claims).where(_held_by, k.state != "acknowledged").values(state="acknowledged", acknowledged_at=NOW)
)
SELECT_CLAIM = sa.select(k.state, k.holder).where(THIS_CLAIM)
SELECT_PROGRESS = (
    sa.select(c.done_seq, w.last_seq)
    .select_from(consumers.join(watermarks, w.id == c.watermark_id))
    .where(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"))
)
SELECT_FIRST_UNFINISHED = (
    sa.select(b.seq)
    .select_from(batch_and_claim_above(_bind("done")))
    .where(THIS_LOG, b.seq > _bind("done"), FOR_CONSUMERS, UNFINISHED)
    .order_by(b.seq)
    .limit(1)
)
SET_DONE = (
    sa.update(consumers)
    .where(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"), c.done_seq < _bind("done"))
    .values(done_seq=_bind("done"))
)
SELECT_STATE_OF_BATCH = (
    sa.select(b.watermark_id, w.asset_name, w.namespace, w.key, k.state)
    .select_from(_batch_and_claim.join(watermarks, w.id == b.watermark_id))
    .where(b.id == _bind("batch"))
)
