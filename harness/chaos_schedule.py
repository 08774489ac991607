"""When faults come: one every few seconds, drawn with a seed, each undone in its time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.chaos_faults import Blow, Kind, Scene
from harness.processes import HarnessError, wait_until

__all__ = ["Fault", "FaultSchedule"]


@dataclass(kw_only=True)
class Fault:
    """A fault that came: in wall clock time, as the journal has it."""

    kind: str
    target: str
    note: str
    began: float
    ended: float = float("inf")


class FaultSchedule:
    """Draws faults for as long as it is asked to.

    :param every: seconds between two of them, on average.
    :param tell: is told of each.
    """

    def __init__(self, scene: Scene, kinds: Sequence[Kind], *, every: float, tell: Callable[[str], None]) -> None:
        self.faults: list[Fault] = []
        self._scene = scene
        self._kinds = kinds
        self._every = every
        self._tell = tell
        self._chance: random.Random = scene.chance
        self._next = time.monotonic()
        self._present: dict[str, tuple[float, Fault, Blow]] = {}
        self._rest: dict[str, float] = {}

    def step(self) -> None:
        """Undo what has lasted long enough, and strike when it is time."""
        now = time.monotonic()
        self._undo([target for target, (end, _, _) in self._present.items() if now >= end])
        if now >= self._next:
            self._next = now + self._chance.uniform(0.5, 1.5) * self._every
            self._strike(now)

    def finish(self) -> None:
        """Undo everything, however often that has to be tried."""
        wait_until("all faults are undone", self._is_undone, 120, poll=1)

    def _is_undone(self) -> bool:
        self._undo(list(self._present))
        return not self._present

    def _strike(self, now: float) -> None:
        stage = self._scene.stage
        free = [
            (kind, targets)
            for kind in self._kinds
            if (targets := [each for each in kind.targets(stage) if self._is_free(each, now)])
        ]
        while free:
            ((kind, targets),) = self._chance.choices(free, weights=[kind.weight for kind, _ in free])
            target = self._chance.choice(targets)
            began = time.time()
            blow = kind.strike(self._scene, target)
            if blow is not None:
                self._begin(kind, Fault(kind=kind.name, target=target, note=blow.note, began=began), blow)
                return
            free = [(other, targets) for other, targets in free if other is not kind]

    def _is_free(self, target: str, now: float) -> bool:
        return target not in self._present and now >= self._rest.get(target, 0.0)

    def _begin(self, kind: Kind, fault: Fault, blow: Blow) -> None:
        self.faults.append(fault)
        now = time.monotonic()
        self._rest[fault.target] = now + blow.seconds + kind.rest
        self._present[fault.target] = (now + blow.seconds, fault, blow)
        lasting = f" for {blow.seconds:.0f} s" if blow.seconds else ""
        self._tell(f"{len(self.faults):4} {fault.kind}: {fault.target}{lasting} {fault.note}")

    def _undo(self, targets: Sequence[str]) -> None:
        for target in targets:
            end, fault, blow = self._present.pop(target)
            try:
                blow.undo()
            except (HarnessError, OSError) as error:  # Airflow may be down itself; it is asked again
                self._tell(f"     not undone yet: {fault.kind}: {target}: {str(error).splitlines()[0]}")
                self._present[target] = (end + 5, fault, blow)
                continue
            fault.ended = time.time()
