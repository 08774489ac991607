"""The statements of upkeep: dead batches, consumers, replays and retention."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.stores.sql.claim_statements import FREE, THIS_CLAIM
from airflow_provider_incremental.stores.sql.statements import (
    FINISHED,
    FOR_CONSUMERS,
    MOST,
    NOW,
    THIS_LOG,
    batch_columns,
)
from airflow_provider_incremental.stores.sql.tables import UtcDateTime, batches, claims, consumers, watermarks

w, b, c, k = watermarks.c, batches.c, consumers.c, claims.c
_bind = sa.bindparam
_name = [w.asset_name, w.namespace, w.key]
_of_asset = w.asset_hash == _bind("asset_hash_")

_claimed_batches = claims.join(batches, sa.and_(b.watermark_id == k.watermark_id, b.seq == k.seq)).join(
    watermarks, w.id == k.watermark_id
)
_what_became = [k.consumer, k.state, k.holder, k.attempt, k.last_error, k.lease_until]
SELECT_HOPELESS = (
    sa.select(*batch_columns, *_name, *_what_became)
    .select_from(_claimed_batches.join(consumers, sa.and_(c.watermark_id == w.id, c.consumer == k.consumer)))
    .where(
        _of_asset,
        k.consumer == _bind("consumer"),
        k.seq > c.done_seq,
        k.attempt >= _bind("max_attempts"),
        FREE,
    )
    .order_by(b.committed_at, b.seq)
)
BURY = (
    sa.update(claims)
    .where(THIS_CLAIM, k.attempt == _bind("attempt_"), k.holder == _bind("holder_"), FREE)
    .values(state="dead", lease_until=NOW, last_error=sa.func.coalesce(k.last_error, _bind("error")))
)


def select_dead(*, of_asset: bool, of_consumer: bool) -> sa.sql.Select[Any]:
    """Read what was set aside, oldest first."""
    rows = sa.select(*batch_columns, *_name, *_what_became).select_from(_claimed_batches).where(k.state == "dead")
    rows = rows.where(_of_asset) if of_asset else rows
    rows = rows.where(k.consumer == _bind("consumer")) if of_consumer else rows
    return rows.order_by(b.committed_at, b.seq, k.consumer)


# --- consumers ---

_waiting, _done, _dead = batches.alias("waiting"), claims.alias("done"), claims.alias("dead")
_above = (
    sa.select(sa.func.count())
    .select_from(_waiting)
    .where(_waiting.c.watermark_id == c.watermark_id, _waiting.c.seq > c.done_seq, _waiting.c.kind != "baseline")
    .scalar_subquery()
)
_finished_above = (
    sa.select(sa.func.count())
    .select_from(_done)
    .where(
        _done.c.watermark_id == c.watermark_id,
        _done.c.consumer == c.consumer,
        _done.c.seq > c.done_seq,
        _done.c.state.in_(FINISHED),
    )
    .scalar_subquery()
)
_set_aside = (
    sa.select(sa.func.count())
    .select_from(_dead)
    .where(_dead.c.watermark_id == c.watermark_id, _dead.c.consumer == c.consumer, _dead.c.state == "dead")
    .scalar_subquery()
)
SELECT_CONSUMERS = sa.select(
    *_name, consumers, (_above - _finished_above).label("pending"), _set_aside.label("dead")
).select_from(consumers.join(watermarks, w.id == c.watermark_id))
SELECT_CONSUMERS_OF_ASSET = SELECT_CONSUMERS.where(_of_asset)
SELECT_KNOWN = (
    sa.select(w.id, *_name, c.consumer, c.start_seq, c.done_seq)
    .select_from(consumers.join(watermarks, w.id == c.watermark_id))
    .order_by(c.consumer)
)
SELECT_KNOWN_OF_ASSET = SELECT_KNOWN.where(_of_asset, c.consumer == _bind("consumer"))
SELECT_KNOWN_OF_WATERMARK = SELECT_KNOWN.where(w.id == _bind("watermark"))
_this_consumer = sa.and_(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"))
DELETE_CONSUMER = sa.delete(consumers).where(_this_consumer)
DELETE_CLAIMS_OF_CONSUMER = sa.delete(claims).where(
    k.watermark_id == _bind("watermark"), k.consumer == _bind("consumer_")
)

# --- replays ---

SELECT_REPLAYABLE = (
    sa.select(b.seq, k.state)
    .select_from(
        batches.outerjoin(
            claims, sa.and_(k.watermark_id == b.watermark_id, k.consumer == _bind("consumer"), k.seq == b.seq)
        )
    )
    .where(THIS_LOG, b.seq >= _bind("first"), b.seq <= _bind("last"), FOR_CONSUMERS)
    .order_by(b.seq)
)
DELETE_CLAIMS = sa.delete(claims).where(
    k.watermark_id == _bind("watermark"),
    k.consumer == _bind("consumer_"),
    k.seq.in_(_bind("seqs", expanding=True)),
    k.state.in_(FINISHED),
)
SET_PROGRESS = (
    sa.update(consumers)
    .where(_this_consumer)
    .values(
        start_seq=sa.case((c.start_seq > _bind("start"), _bind("start")), else_=c.start_seq),
        done_seq=sa.case((c.done_seq > _bind("done"), _bind("done")), else_=c.done_seq),
        last_seen_at=NOW,
    )
)

# --- retention ---

LOCK_CONSUMERS = (  # in the order in which a replay locks them
    sa.select(c.consumer).where(c.watermark_id == _bind("watermark")).order_by(c.consumer).with_for_update()
)

_everybody_is_past = sa.func.coalesce(
    sa.select(sa.func.min(c.done_seq)).where(c.watermark_id == _bind("watermark")).scalar_subquery(),
    sa.literal(2**62, sa.BigInteger()),
)
_nobody_owes_it = sa.or_(b.seq <= _everybody_is_past, b.kind == "baseline")
_kept_for_somebody = (
    sa.exists()
    .where(_dead.c.watermark_id == _bind("watermark"), _dead.c.seq == b.seq, _dead.c.state == "dead")
    .correlate(batches)
)
SELECT_NEEDLESS = (
    sa.select(b.seq)
    .where(
        THIS_LOG,
        b.seq < _bind("before"),
        _nobody_owes_it,
        b.committed_at < _bind("old", type_=UtcDateTime()),
        sa.or_(b.announced_at.is_not(None), b.kind == "baseline"),
        ~_kept_for_somebody,
    )
    .order_by(b.seq)
    .limit(MOST)
)
_these: sa.sql.elements.BindParameter[Any] = _bind("seqs", expanding=True)
_pruned = ~sa.exists().where(_waiting.c.watermark_id == k.watermark_id, _waiting.c.seq == k.seq).correlate(claims)
PRUNE_CLAIMS = sa.delete(claims).where(k.watermark_id == _bind("watermark"), k.seq.in_(_these), _pruned)
PRUNE_BATCHES = sa.delete(batches).where(THIS_LOG, b.seq.in_(_these), _nobody_owes_it)
