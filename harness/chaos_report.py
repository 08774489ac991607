"""What a chaos run says in the end: figures, a table, and what is to be known of each loss."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import table
from harness.chaos_accounting import Account
from harness.chaos_schedule import Fault

__all__ = ["Outcome"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The accounts of all consumers and of the control, and what else was counted."""

    accounts: Sequence[Account]
    control: Account
    faults: Sequence[Fault]
    counts: Mapping[str, Mapping[str, int]]
    conflicts: int
    log_faults: Sequence[str]
    recovery: Mapping[str, Sequence[float]]
    settle_seconds: float

    @property
    def failed(self) -> bool:
        """Whether anything was lost, or repeated or set aside without a reason, or the log has a fault."""
        return bool(self.log_faults or any(map(_has_failed, self.accounts)))

    def figures(self) -> dict[str, float]:
        """Return everything that was counted, by name: sums, then by consumer, then the recovery of each fault."""
        largest = {each.asset: each.items for each in self.accounts}
        found: dict[str, float] = {
            "items": sum(largest.values()),
            "faults": len(self.faults),
            **_sums(self.accounts),
            "redeliveries": sum(each["redeliveries"] for each in self.counts.values()),
            "conflicts": self.conflicts,
            "dead": sum(each["dead"] for each in self.counts.values()),
            "log_faults": len(self.log_faults),
            "settle_seconds": round(self.settle_seconds, 1),
            "control_items": self.control.items,
            "control_lost": len(self.control.lost),
            "control_repeated": len(self.control.unexplained),
        }
        for consumer in dict.fromkeys(each.consumer for each in self.accounts):
            mine = [each for each in self.accounts if each.consumer == consumer]
            found |= {f"{consumer}.{name}": value for name, value in _sums(mine).items()}
            found |= {f"{consumer}.{name}": value for name, value in self.counts.get(consumer, {}).items()}
        for kind, seconds in sorted(self.recovery.items()):
            name = kind.replace(" ", "_").replace(":", "").replace(",", "")
            found[f"recovery_seconds.{name}.median"] = round(statistics.median(seconds), 1)
            found[f"recovery_seconds.{name}.longest"] = round(max(seconds), 1)
        return found

    def tables(self) -> str:
        """Return the same for a reader."""
        head = ("consumer", "asset", "items", "lost", "unexplained", "holder died", "cut off")
        rows = [_row(each) for each in [*self.accounts, self.control]]
        kinds = [
            (kind, len(seconds), round(statistics.median(seconds), 1), round(max(seconds), 1))
            for kind, seconds in sorted(self.recovery.items())
        ]
        figures = self.figures()
        sums = ("items", "faults", "redeliveries", "conflicts", "dead", "log_faults", "settle_seconds")
        return "\n\n".join(
            [
                table(head, rows),
                table(("fault", "times", "recovery s, median", "longest"), kinds),
                ", ".join(f"{name} {figures[name]:g}" for name in sums),
            ]
        )


def _has_failed(each: Account) -> bool:
    return bool(each.lost or each.unexplained or each.wrongly_dead)


def _sums(accounts: Sequence[Account]) -> dict[str, float]:
    return {
        "lost": sum(len(each.lost) for each in accounts),
        "repeated_unexplained": sum(len(each.unexplained) for each in accounts),
        "repeated_holder_died": sum(each.repeated_holder_died for each in accounts),
        "repeated_cut_off": sum(each.repeated_cut_off for each in accounts),
        "wrongly_dead": sum(len(each.wrongly_dead) for each in accounts),
    }


def _row(each: Account) -> tuple[object, ...]:
    died, cut_off = each.repeated_holder_died, each.repeated_cut_off
    return each.consumer, each.asset, each.items, len(each.lost), len(each.unexplained), died, cut_off
