"""Every statement of the SQL store, named. The one for PostgreSQL's hot path is in :mod:`hot_commit`.

Columns whose names are methods of a row come under another one: ``count`` as ``size``, ``items`` as ``payload``.
Bound names that are also columns' names carry an underscore, since SQLAlchemy keeps those for itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.sql.dml import Insert

from airflow_provider_incremental.stores.sql.dialects import Dialect
from airflow_provider_incremental.stores.sql.tables import UtcDateTime, batches, claims, consumers, identity, watermarks

__all__ = ["asset_hash", "batch_columns", "in_parts", "watermark_columns"]

T = TypeVar("T")
_LONGEST_LIST = 500

w, b, c, k = watermarks.c, batches.c, consumers.c, claims.c
_bind = sa.bindparam
_now = sa.bindparam("now", type_=UtcDateTime())
_most = sa.bindparam("most", type_=sa.Integer())


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
    w.moved_at,
    w.last_poll_at,
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
_payload = b["items"].label("payload")
_small_payload = sa.case((b.items_bytes <= _bind("inline_bytes"), b["items"]), else_=sa.null()).label("payload")

_for_consumers = b.kind != "baseline"
_this_batch_log = b.watermark_id == _bind("watermark")
_claim_of_batch = sa.and_(k.watermark_id == b.watermark_id, k.consumer == _bind("consumer"), k.seq == b.seq)
_unfinished = sa.or_(k.state.is_(None), k.state != "acknowledged")
_free = sa.or_(k.state.is_(None), k.state == "released", sa.and_(k.state == "claimed", k.lease_until <= _now))
_batch_and_claim = batches.outerjoin(claims, _claim_of_batch)


def _batch_and_claim_above(done: Any) -> sa.sql.selectable.Join:
    # No planner concludes this from the batches' own condition: it would read the claims from the very first one.
    return batches.outerjoin(claims, sa.and_(_claim_of_batch, k.seq > done))


# --- the store itself ---


def select_identity(dialect: Dialect) -> sa.sql.Select[Any]:
    """Read the store's identity, and its clock in the same round trip."""
    return sa.select(identity.c.identity, dialect.now.label("now")).where(identity.c.id == 1)


# --- watermarks ---

SELECT_WATERMARK = sa.select(*watermark_columns).where(w.id == _bind("watermark"))
SELECT_ALL_WATERMARKS = sa.select(*watermark_columns)
SELECT_WATERMARKS_OF_ASSET = SELECT_ALL_WATERMARKS.where(w.asset_hash == _bind("asset_hash_"))
SELECT_NAMES_OF_ASSET = sa.select(w.id, w.asset_name, w.namespace, w.key, w.last_seq).where(
    w.asset_hash == _bind("asset_hash_")
)


def insert_watermark(dialect: Dialect) -> Insert:
    """Make a watermark at version 0 unless it is there."""
    return dialect.insert_if_absent(watermarks)


SET_WATCHES = (
    sa.update(watermarks)
    .where(w.id == _bind("watermark"), w.watches_source.is_(None))
    .values(watches_source=_bind("source"), watches_cursor=_bind("shape"))
)

_reported: dict[str, Any] = {
    "last_poll_at": _now,
    "last_error": _bind("error"),
    "last_error_at": sa.case((_bind("failed", type_=sa.Boolean()), _now), else_=w.last_error_at),
    "failures": _bind("failures_"),
    "conflicts": w.conflicts + _bind("conflicts_"),
    "late_skipped": w.late_skipped + _bind("late_skipped_"),
    "note": _bind("note_"),
}
REPORT = sa.update(watermarks).where(w.id == _bind("watermark")).values(**_reported)
MOVE = (
    sa.update(watermarks)
    .where(w.id == _bind("watermark"), w.version == _bind("version_"))
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


@lru_cache
def rewind(*, reread: bool, rewatch: bool) -> sa.sql.Update:
    """Set the cursor whatever the version."""
    changes: dict[str, Any] = {"cursor": _bind("cursor_"), "version": w.version + 1, "moved_at": _now}
    if reread:
        changes["reread_after_seq"] = w.last_seq
    if rewatch:
        changes |= {"watches_source": None, "watches_cursor": None}
    return sa.update(watermarks).where(w.id == _bind("watermark")).values(**changes)


# --- the batch log ---

CONFIRM = sa.update(batches).where(_this_batch_log, b.seq.in_(_bind("seqs", expanding=True))).values(announced_at=_now)
SELECT_UNCONFIRMED = (
    sa.select(*batch_columns, _small_payload)
    .where(_this_batch_log, b.announced_at.is_(None), _for_consumers)
    # All of the first are NULL; named here, they let the index give the order, so that nothing is sorted or skipped.
    .order_by(b.announced_at, b.seq)
    .limit(_most)
)
SELECT_LAGGING = (
    sa.select(c.consumer, c.done_seq)
    .select_from(consumers.join(watermarks, w.id == c.watermark_id))
    .where(c.watermark_id == _bind("watermark"), c.done_seq < w.last_seq)
)
# Of another alias, and with nothing but what is bound: it is looked up once, before any batch is.
_held = claims.alias("held")
_holds_a_lease = sa.exists().where(
    _held.c.watermark_id == _bind("watermark"),
    _held.c.consumer == _bind("consumer"),
    _held.c.seq > _bind("done"),
    _held.c.state == "claimed",
    _held.c.lease_until > _now,
)
SELECT_UNACKNOWLEDGED = (
    sa.select(*batch_columns, _small_payload)
    .select_from(_batch_and_claim_above(_bind("done")))
    .where(
        _this_batch_log,
        b.seq > _bind("done"),
        b.announced_at <= _bind("announced_before", type_=UtcDateTime()),
        _for_consumers,
        _unfinished,
        ~_holds_a_lease,
    )
    .order_by(b.seq)
    .limit(_most)
)
SELECT_SEEN = (
    sa.select(b.seq, b.high, b.fingerprints)
    .where(_this_batch_log, b.seq > _bind("after"), b.seq < _bind("before"))
    .order_by(b.seq.desc())
    .limit(_most)
)
SELECT_HISTORY = (
    sa.select(*batch_columns, _payload)
    .where(_this_batch_log, b.seq < _bind("before"))
    .order_by(b.seq.desc())
    .limit(_most)
)

# --- consumers ---

SELECT_SUBSCRIPTIONS = (
    sa.select(w.id, w.asset_name, w.namespace, w.key, w.last_seq, c.consumer, c.done_seq)
    .select_from(watermarks.join(consumers, w.id == c.watermark_id))
    .where(w.asset_hash == _bind("asset_hash_"), c.consumer == _bind("consumer"))
)
SELECT_NAMED_SEQS = sa.select(b.watermark_id, b.seq).where(b.id.in_(_bind("ids", expanding=True)))
TOUCH_CONSUMERS = (
    sa.update(consumers)
    .where(c.watermark_id.in_(_bind("watermarks_", expanding=True)), c.consumer == _bind("consumer_"))
    .values(last_seen_at=_now)
)


def insert_consumer(dialect: Dialect) -> Insert:
    """Make a consumer known on a watermark unless it is."""
    return dialect.insert_if_absent(consumers)


# --- claims ---


@lru_cache
def select_waiting(watermark_count: int, *, held_too: bool) -> sa.sql.Select[Any] | sa.sql.CompoundSelect[Any]:
    """Read the oldest batches that wait for a consumer, from the log of each of several watermarks.

    Each log is read from where the consumer has finished everything, by its primary key, and only so far as is asked.
    """
    wanted = _unfinished if held_too else _free
    each = []
    for number in range(watermark_count):
        done: sa.sql.elements.BindParameter[Any] = _bind(f"done{number}")
        rows = (
            sa.select(*batch_columns, k.state, k.holder, k.attempt)
            .select_from(_batch_and_claim_above(done))
            .where(
                b.watermark_id == _bind(f"watermark{number}"),
                b.seq > done,
                _for_consumers,
                wanted,
            )
            .order_by(b.seq)
            .limit(_most)
            .subquery(f"w{number}")
        )
        each.append(sa.select(rows))
    return each[0] if watermark_count == 1 else sa.union_all(*each)


SELECT_NAMED_WAITING = (
    sa.select(*batch_columns, k.state, k.holder, k.attempt)
    .select_from(_batch_and_claim)
    .where(b.id == _bind("batch"), _for_consumers, _free)
)


def insert_claim(dialect: Dialect) -> Insert:
    """Take a batch that the consumer has never taken, unless somebody is faster."""
    return dialect.insert_if_absent(claims)


_this_claim = sa.and_(k.watermark_id == _bind("watermark"), k.consumer == _bind("consumer_"), k.seq == _bind("seq_"))
_held_by = sa.and_(_this_claim, k.holder == _bind("holder_"))
_until = _bind("until", type_=UtcDateTime())

TAKE_OVER = (
    sa.update(claims)
    .where(_this_claim, k.attempt == _bind("attempt_"), k.holder == _bind("holder_"), _free)
    .values(state="claimed", holder=_bind("taker"), attempt=k.attempt + 1, claimed_at=_now, lease_until=_until)
)
SELECT_ITEMS = sa.select(b.id, _payload).where(_this_batch_log, b.seq == _bind("seq_"))
RENEW = sa.update(claims).where(_held_by, k.state == "claimed").values(lease_until=_until)
RELEASE = (
    sa.update(claims)
    .where(_held_by, k.state == "claimed")
    .values(state="released", lease_until=_now, last_error=_bind("error"))
)
LOCK_CONSUMER = (
    sa.update(consumers)
    .where(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"))
    .values(last_seen_at=_now)
)
ACKNOWLEDGE = (
    sa.update(claims).where(_held_by, k.state != "acknowledged").values(state="acknowledged", acknowledged_at=_now)
)
SELECT_CLAIM = sa.select(k.state, k.holder).where(_this_claim)
SELECT_PROGRESS = (
    sa.select(c.done_seq, w.last_seq)
    .select_from(consumers.join(watermarks, w.id == c.watermark_id))
    .where(c.watermark_id == _bind("watermark"), c.consumer == _bind("consumer_"))
)
SELECT_FIRST_UNFINISHED = (
    sa.select(b.seq)
    .select_from(_batch_and_claim_above(_bind("done")))
    .where(_this_batch_log, b.seq > _bind("done"), _for_consumers, _unfinished)
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
