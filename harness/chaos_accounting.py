"""What became of every item of a chaos run: processed once, lost, or repeated, and whether a death explains that.

Only what was noted counts. A repeat is explained when the holder before had not acknowledged the batch, and was dead
when the next one took it, or was told to end; or when the store was out of its reach, so that its lease could end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from harness.chaos_dags.chaos_notes import is_refused
from harness.chaos_faults import STORE_KINDS
from harness.chaos_schedule import Fault

__all__ = ["Account", "account", "recoveries"]

Record = Mapping[str, Any]

_CUT_OFF = {"StoreUnavailableError", "LeaseLostError", "StoreError"}
_BODY = {"RefusedError"}
_LONGEST_LEASE = 25.0
"""Seconds for which a fault can still end a lease after it was undone: a lease, and a renewal that came late."""


@dataclass(kw_only=True)
class Account:
    """What became of the items of one asset at one consumer. Each repeat counts, also of one item."""

    consumer: str
    asset: str
    items: int
    lost: set[str] = field(default_factory=set)
    repeated_holder_died: int = 0
    repeated_cut_off: int = 0
    unexplained: list[str] = field(default_factory=list)
    wrongly_dead: list[str] = field(default_factory=list)


def account(
    consumer: str,
    asset: str,
    *,
    expected: Collection[str],
    records: Iterable[Record],
    faults: Sequence[Fault],
    dead: Iterable[Sequence[str]] = (),
) -> Account:
    """Return what became of each item that the source holds in the end, and of those that it has held.

    :param records: the whole journal, in the order in which it was written.
    :param dead: the items of each batch that was set aside. Right for one that has an item which this consumer always
        refuses: it is not lost. Wrong for any other.
    """
    tenures = [each for each in _tenures(records) if (each.consumer, each.asset) == (consumer, asset)]
    by_item: dict[str, list[_Tenure]] = defaultdict(list)
    for tenure in tenures:
        for item in tenure.items:
            by_item[item].append(tenure)
    wrong = [items[0] for items in dead if not any(map(is_refused, items))]
    lost = set(expected) - by_item.keys() - {item for items in dead for item in items}
    result = Account(consumer=consumer, asset=asset, items=len(expected), lost=lost, wrongly_dead=wrong)
    for item, several in by_item.items():
        for earlier, later in pairwise(several):
            _judge(result, item, earlier, later, faults)
    return result


@dataclass(kw_only=True)
class _Tenure:
    """One holder's time with one batch."""

    consumer: str
    asset: str
    holder: str
    batch: str
    began: float
    others: Mapping[str, bool]
    items: list[str] = field(default_factory=list)
    acknowledged: bool = False
    error: str | None = None
    left: bool = False


def _tenures(records: Iterable[Record]) -> list[_Tenure]:
    """Return them in the order in which they processed: a batch that nobody had to take begins with that."""
    present: dict[tuple[str, str, str], _Tenure] = {}
    found: list[_Tenure] = []
    for record in records:
        who = (record["consumer"], record["asset"], record["holder"])
        if record["what"] == "left":
            for tenure in found:
                if (tenure.consumer, tenure.asset, tenure.holder) == who:
                    tenure.left = True
            continue
        tenure = present.get(who)
        if record["what"] == "took" or tenure is None or tenure.batch != record["batch"]:
            names = dict(zip(("consumer", "asset", "holder"), who, strict=True))
            tenure = _Tenure(batch=record["batch"], began=record["at"], others=record.get("others", {}), **names)
            present[who] = tenure
            found.append(tenure)
        _follow(tenure, record)
    return sorted((each for each in found if each.items), key=lambda each: each.began)


def _follow(tenure: _Tenure, record: Record) -> None:
    if record["what"] == "processed":
        tenure.items += record["items"]
    elif record["what"] == "acknowledged":
        tenure.acknowledged = True
    elif record["what"] == "ended":
        tenure.error = record["error"]


def _judge(result: Account, item: str, earlier: _Tenure, later: _Tenure, faults: Sequence[Fault]) -> None:
    reason = _unexplained(earlier, later)
    cut_off = any(_could_end_a_lease(fault, earlier.began, later.began) for fault in faults)
    if reason is None:
        result.repeated_holder_died += 1
    elif reason in (_ALIVE, _NOT_TOLD) and cut_off:
        result.repeated_cut_off += 1
    else:
        result.unexplained.append(f"{result.consumer} {result.asset} {item}: {reason}: {earlier} and {later}")


_ALIVE = "the holder before was alive"
_NOT_TOLD = "the acknowledgement failed"


def _unexplained(earlier: _Tenure, later: _Tenure) -> str | None:
    """Return why a death does not explain the repeat; None when one does."""
    if earlier.batch != later.batch:
        return "it was in two batches"
    if earlier.acknowledged:
        return "it was acknowledged"
    if earlier.error in _CUT_OFF:
        return _NOT_TOLD
    if earlier.error is not None:
        return f"the body raised {earlier.error}" if earlier.error in _BODY else None
    if earlier.left:
        return "the task ended well, without an acknowledgement"
    return _ALIVE if later.others.get(earlier.holder, True) else None


def _could_end_a_lease(fault: Fault, began: float, taken: float) -> bool:
    hits = fault.target == "store" and fault.kind in STORE_KINDS
    return hits and fault.began <= taken and fault.ended + _LONGEST_LEASE >= began


def recoveries(
    faults: Sequence[Fault], records: Sequence[Record], written: Mapping[tuple[str, str], float]
) -> dict[str, list[float]]:
    """Return for each kind of fault the seconds until items of every asset, written after it began, were processed."""
    done: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for record in records:
        if record["what"] == "processed":
            times = [written.get((record["asset"], item), 0.0) for item in record["items"]]
            done[record["asset"]].append((record["at"], max(times, default=0.0)))
    found: dict[str, list[float]] = defaultdict(list)
    for fault in faults:
        firsts = [_first_after(fault.began, each) for each in done.values()]
        if None not in firsts:
            found[_label(fault)].append(max(first for first in firsts if first is not None) - fault.began)
    return dict(found)


def _first_after(began: float, done: Iterable[tuple[float, float]]) -> float | None:
    return min((at for at, written in done if written >= began), default=None)


def _label(fault: Fault) -> str:
    return f"{fault.kind}: {fault.target}" if fault.target in ("store", "source", "s3") else fault.kind
