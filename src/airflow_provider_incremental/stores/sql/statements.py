"""Every statement of the SQL store, named. The one for PostgreSQL's hot path is in :mod:`hot_commit`.

Columns whose names are methods of a row come under another one: ``count`` as ``size``, ``items`` as ``payload``.
Bound names that are also columns' names carry an underscore, since SQLAlchemy keeps those for itself.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.dml import Insert

from airflow_provider_incremental.core.store import CLOCK_TOLERANCE
from airflow_provider_incremental.stores.sql.dialects import Dialect
from airflow_provider_incremental.stores.sql.tables import (
    UtcDateTime,
    answers,
    batches,
    claims,
    consumers,
    identity,
    watermarks,
)

__all__ = ["asset_hash", "at", "batch_columns", "in_parts", "watermark_columns"]

T = TypeVar("T")
_LONGEST_LIST = 500

w, b, c, k = watermarks.c, batches.c, consumers.c, claims.c
_bind = sa.bindparam
NOW = sa.bindparam("now", type_=UtcDateTime())
AHEAD = sa.bindparam("ahead", type_=UtcDateTime())
MOST = sa.bindparam("most", type_=sa.Integer())


def at(now: dt.datetime) -> dict[str, dt.datetime]:
    """Return what statements bind that look at leases: NOW, and AHEAD, which no clock shows yet unless it is wrong."""
    return {"now": now, "ahead": now + dt.timedelta(seconds=CLOCK_TOLERANCE)}


def asset_hash(asset_name: str) -> str:
    """Return what finds the watermarks of an asset; whoever reads them compares the name itself as well."""
    return hashlib.sha256(asset_name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def in_parts(values: Sequence[T], size: int = _LONGEST_LIST) -> Iterator[Sequence[T]]:
    """Yield a list in pieces that a statement may bind: every database limits its parameters."""
    for at in range(0, len(values), size):
        yield values[at : at + size]


watermark_columns = [
    w.id,
    w.asset_name,
    w.namespace,
    w.key,
    w.cursor,
    w.version,
    w.last_seq,
    w.reread_after_seq,
    w.watches_source,
    w.watches_cursor,
    w.created_at,
    w.moved_at,
    w.last_poll_at,
    w.next_poll_at,
    w.last_error,
    w.last_error_at,
    w.failures,
    w.conflicts,
    w.late_skipped,
    w.note,
]
batch_columns: list[Any] = [
    b.watermark_id,
    b.id,
    b.seq,
    b.kind,
    b.low,
    b.high,
    b["count"].label("size"),
    b["items_bytes"],
    b.committed_at,
    b.announced_at,
]
PAYLOAD = b["items"].label("payload")

FOR_CONSUMERS = b.kind != "baseline"
THIS_LOG = b.watermark_id == _bind("watermark")
CLAIM_OF_BATCH = sa.and_(k.watermark_id == b.watermark_id, k.consumer == _bind("consumer"), k.seq == b.seq)
FINISHED = ("acknowledged", "dead")
UNFINISHED = sa.or_(k.state.is_(None), k.state.not_in(FINISHED))


def batch_and_claim_above(done: Any) -> sa.sql.selectable.Join:
    """Join the batches of a log with a consumer's claims, both from above the same number."""
    # No planner concludes this from the batches' own condition: it would read the claims from the very first one.
    return batches.outerjoin(claims, sa.and_(CLAIM_OF_BATCH, k.seq > done))


# --- the store itself ---


def select_identity(dialect: Dialect) -> sa.sql.Select[Any]:
    """Read the store's identity, and its clock in the same round trip."""
    return sa.select(identity.c.identity, dialect.now.label("now")).where(identity.c.id == 1)


# --- watermarks ---

SELECT_WATERMARK = sa.select(*watermark_columns).where(w.id == _bind("watermark"))
SELECT_ALL_WATERMARKS = sa.select(*watermark_columns)
SELECT_WATERMARKS_OF_ASSET = SELECT_ALL_WATERMARKS.where(w.asset_hash == _bind("asset_hash_"))
SELECT_NAMES_OF_ASSET = sa.select(w.id, w.asset_name, w.namespace, w.key, w.last_seq, w.created_at).where(
    w.asset_hash == _bind("asset_hash_")
)


def insert_watermark(dialect: Dialect) -> Insert:
    """Make a watermark at version 0 unless it is there."""
    return dialect.insert_if_absent(watermarks)


SET_WATCHES = (
    sa.update(watermarks)
    .where(w.id == _bind("watermark"), sa.or_(w.watches_source.is_(None), w.version == 0))
    .values(watches_source=_bind("source"), watches_cursor=_bind("shape"))
)

_reported: dict[str, Any] = {
    "last_poll_at": NOW,
    "next_poll_at": _bind("next_poll_at_", type_=UtcDateTime()),
    "last_error": _bind("error"),
    "last_error_at": sa.case((_bind("failed", type_=sa.Boolean()), NOW), else_=w.last_error_at),
    "failures": _bind("failures_"),
    "conflicts": w.conflicts + _bind("conflicts_"),
    "late_skipped": w.late_skipped + _bind("late_skipped_"),
    "note": _bind("note_"),
}
REPORT = sa.update(watermarks).where(w.id == _bind("watermark")).values(**_reported)
_still_that_one = w.created_at == _bind("created_at_", type_=UtcDateTime())
_still_watched = sa.or_(
    w.version > 0,
    sa.and_(
        w.watches_source.is_not_distinct_from(_bind("source", type_=sa.Text())),
        w.watches_cursor.is_not_distinct_from(_bind("shape", type_=sa.Text())),
    ),
)
MOVE = (
    sa.update(watermarks)
    .where(w.id == _bind("watermark"), w.version == _bind("version_"), _still_that_one, _still_watched)
    .values(
        cursor=_bind("cursor_"),
        version=w.version + 1,
        last_seq=w.last_seq + _bind("added"),
        moved_at=_bind("moved_at_", type_=UtcDateTime()),
        **_reported,
    )
)


def append(dialect: Dialect) -> Insert:
    """Add batches to the log; the fingerprints are bound as ``marks``."""
    marks: Any = sa.func.unhex(_bind("marks", type_=sa.Text())) if dialect.bytes_as_hex else _bind("marks")
    return sa.insert(batches).values(fingerprints=marks)


DELETE_WATERMARK = sa.delete(watermarks).where(w.id == _bind("watermark"))

_NOT_WATCHED: dict[str, Any] = {"watches_source": None, "watches_cursor": None}
REWATCH = (
    sa.update(watermarks)
    .where(w.id == _bind("watermark"))
    .values(version=sa.case((w.version > 0, w.version + 1), else_=0), **_NOT_WATCHED)
)


@lru_cache
def rewind(*, reread: bool, rewatch: bool) -> sa.sql.Update:
    """Set the cursor whatever the version."""
    changes: dict[str, Any] = {"cursor": _bind("cursor_"), "version": w.version + 1, "moved_at": NOW}
    if reread:
        changes["reread_after_seq"] = w.last_seq
    if rewatch:
        changes |= _NOT_WATCHED
    return sa.update(watermarks).where(w.id == _bind("watermark")).values(**changes)


# --- the batch log ---

CONFIRM = sa.update(batches).where(THIS_LOG, b.id.in_(_bind("ids", expanding=True))).values(announced_at=NOW)
_told = sa.select(w.announced_seq).where(w.id == _bind("watermark")).scalar_subquery()
_anybody, _waiting, _finished = consumers.alias("anybody"), consumers.alias("waiting"), claims.alias("finished")
SEEN_AFTER = _bind("seen_after", type_=UtcDateTime())
_somebody_is_known = sa.exists().where(
    _anybody.c.watermark_id == _bind("watermark"), _anybody.c.last_seen_at > SEEN_AFTER
)
_has_finished = (
    sa.exists()
    .where(
        _finished.c.watermark_id == _bind("watermark"),
        _finished.c.consumer == _waiting.c.consumer,
        _finished.c.seq == b.seq,
        _finished.c.state.in_(FINISHED),
    )
    .correlate(batches, _waiting)  # said, since by itself it looks no further than the next statement around it
)
_somebody_waits = (
    sa.exists()
    .where(_waiting.c.watermark_id == _bind("watermark"), _waiting.c.last_seen_at > SEEN_AFTER, ~_has_finished)
    .correlate(batches)
)
_nobody_waits = sa.and_(_somebody_is_known, ~_somebody_waits)
SETTLED = sa.and_(b.seq <= _told, _nobody_waits)
CONFIRM_SETTLED = (
    sa.update(batches)
    # The number is bound: of a backlog that was never announced, no database then looks at a single batch.
    .where(THIS_LOG, b.announced_at.is_(None), b.seq <= _bind("told"), FOR_CONSUMERS, _nobody_waits)
    .values(announced_at=NOW)
)
BEGIN_ANNOUNCEMENT = (
    sa.update(watermarks)
    .where(
        w.id == _bind("watermark"),
        sa.or_(
            w.announced_at.is_(None),
            w.announced_at <= _bind("long_ago", type_=UtcDateTime()),
            w.announced_at > _bind("too_late", type_=UtcDateTime()),  # the clock was set back
        ),
    )
    .values(
        announced_at=NOW,
        announced_seq=sa.case((w.announced_seq < _bind("up_to"), _bind("up_to")), else_=w.announced_seq),
    )
)
SELECT_ANNOUNCED = sa.select(w.announced_at, w.announced_seq).where(w.id == _bind("watermark"))
SELECT_PAYLOADS = sa.select(b.id, PAYLOAD).where(b.id.in_(_bind("ids", expanding=True)))
SELECT_SEEN = (
    sa.select(b.seq, b.high, b.fingerprints)
    .where(THIS_LOG, b.seq > _bind("after"), b.seq < _bind("before"))
    .order_by(b.seq.desc())
    .limit(MOST)
)
SELECT_HISTORY = (
    sa.select(*batch_columns, PAYLOAD).where(THIS_LOG, b.seq < _bind("before")).order_by(b.seq.desc()).limit(MOST)
)
REMEMBER = sa.insert(answers)
RECALL = sa.select(answers.c.answer).where(answers.c.id == _bind("key"))
FORGET_ANSWERS = sa.delete(answers).where(answers.c.answered_at < _bind("before", type_=UtcDateTime()))
