"""The statements that read a watermark page by page, and those that take the pages in."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_provider_incremental.core.snapshot import CONSUMER_WEIGHT, PIECE_WEIGHT, Section
from airflow_provider_incremental.stores.sql.statements import MOST, PAYLOAD, THIS_LOG, batch_columns, watermark_columns
from airflow_provider_incremental.stores.sql.tables import batches, claims, consumers, memories, watermarks

__all__ = ["ADD_PAGE", "MOVE_ROWS", "PARTS", "SELECT_BATCHES", "SELECT_CONSUMERS", "SELECT_HEAD", "SELECT_PIECES"]

w, b, c, k, m = watermarks.c, batches.c, consumers.c, claims.c, memories.c
_bind = sa.bindparam
_name: sa.sql.elements.BindParameter[Any] = _bind("name_")
_seq: sa.sql.elements.BindParameter[Any] = _bind("seq_")
_NO_SEQ = sa.literal(0).label("seq")
_NO_NAME = sa.literal("").label("name")
_BATCH_WEIGHT = 300
_WORK_WEIGHT = 250

SELECT_HEAD = sa.select(*watermark_columns, w.announced_at, w.announced_seq).where(w.id == _bind("watermark"))

PARTS: dict[Section, sa.sql.Select[Any]] = {
    "pieces": sa.select(m.name, _NO_SEQ, (sa.func.length(m.piece) + PIECE_WEIGHT).label("weight"))
    .where(m.watermark_id == _bind("watermark"), m.name > _name)
    .order_by(m.name),
    "batches": sa.select(
        _NO_NAME, b.seq, (b["items_bytes"] + sa.func.length(b.fingerprints) + _BATCH_WEIGHT).label("weight")
    )
    .where(THIS_LOG, b.seq > _seq)
    .order_by(b.seq),
    "consumers": sa.select(
        c.consumer.label("name"),
        _NO_SEQ,
        sa.literal(CONSUMER_WEIGHT).label("weight"),
        c.start_seq,
        c.first_seen_at,
        c.last_seen_at,
    )
    .where(c.watermark_id == _bind("watermark"), c.consumer > _name)
    .order_by(c.consumer),
    # Of known consumers and batches only: a claim that was made while one of them was deleted is nobody's.
    "work": sa.select(
        k.consumer.label("name"),
        k.seq,
        (sa.func.coalesce(sa.func.length(k.last_error), 0) + _WORK_WEIGHT).label("weight"),
        k.state,
        k.holder,
        k.attempt,
        k.lease_until,
        k.claimed_at,
        k.last_error,
    )
    .select_from(
        claims.join(consumers, sa.and_(c.watermark_id == k.watermark_id, c.consumer == k.consumer)).join(
            batches, sa.and_(b.watermark_id == k.watermark_id, b.seq == k.seq)
        )
    )
    .where(k.watermark_id == _bind("watermark"), k.consumer >= _name, sa.or_(k.consumer > _name, k.seq > _seq))
    .order_by(k.consumer, k.seq),
}
"""Of each section, what follows a place in the order of the primary key, with about how much of a page each takes."""
PARTS = {section: statement.limit(MOST) for section, statement in PARTS.items()}

SELECT_PIECES = sa.select(m.name, m.piece).where(
    m.watermark_id == _bind("watermark"), m.name.in_(_bind("names", expanding=True))
)
SELECT_BATCHES = (
    sa.select(*batch_columns, PAYLOAD, b.fingerprints)
    .where(THIS_LOG, b.seq >= _bind("first"), b.seq <= _bind("last"))
    .order_by(b.seq)
)
SELECT_CONSUMERS = sa.select(c.consumer).where(c.watermark_id == _bind("watermark"))

ADD_PAGE = (
    sa.update(watermarks).where(w.id == _bind("watermark"), w.version == _bind("number")).values(version=w.version + 1)
)
MOVE_ROWS = [
    sa.update(table).where(table.c.watermark_id == _bind("staging")).values(watermark_id=_bind("watermark"))
    for table in (memories, batches, consumers, claims)
]
