"""The chaos run: a real Airflow, written to all the time and hit by faults, then every item accounted for.

Ends with status 1 if anything was lost, or repeated without the death of who held it to explain that.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks import report
from harness import chaos_log
from harness.chaos_accounting import Account, account, recoveries
from harness.chaos_faults import KINDS, Scene
from harness.chaos_journal import OpenJournal
from harness.chaos_report import Outcome
from harness.chaos_schedule import FaultSchedule
from harness.chaos_stage import CONSUMERS, CONTROL, Stage, staged
from harness.chaos_writer import Writer, contents
from harness.processes import HarnessError, wait_until

__all__ = ["main"]

_BEGIN_SECONDS = 300
_SETTLE_SECONDS = 420
_QUIET_SECONDS = 15
_TELL_SECONDS = 20
_SHOWN = 20
_started = time.monotonic()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chaos and return the exit status."""
    options = _parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    # Asked to end, the run ends what it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"Airflow {version('apache-airflow')}, {options.minutes:g} minutes, seed {seed}")
    kinds = [kind for kind in KINDS if not options.only or any(name in kind.name for name in options.only)]
    # Before 3.2, two triggerers take the watchers from one another all the time, without any fault.
    release = tuple(int(part) for part in version("apache-airflow").split(".")[:2])
    triggerers = options.triggerers or (2 if release >= (3, 2) else 1)
    try:
        with staged(triggerers=triggerers, keep=options.keep, through_api=options.store == "api") as stage:
            run = _Run(stage, seed)
            run.begin()
            run.suffer(kinds, minutes=options.minutes, every=options.every)
            outcome = run.settle()
            run.explain(outcome)
    except HarnessError as error:
        say(f"FAILED: {error}")
        return 1
    figures = {"seed": seed, "minutes": options.minutes, "triggerers": triggerers, **outcome.figures()}
    report.write("chaos", figures, options.json)
    print(f"\n{outcome.tables()}\n", flush=True)
    say(f"{'FAILED' if outcome.failed else 'passed'}: Airflow {version('apache-airflow')}, seed {seed}")
    return int(outcome.failed)


def say(text: str) -> None:
    """Tell what happens, and when."""
    print(f"[{time.monotonic() - _started:6.1f} s] {text}", flush=True)


class _Run:
    """One run, from the first item to the last account."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._journal = OpenJournal(stage.journal)
        self._writer = Writer(stage, seed)
        self._chance = random.Random(seed)
        self._schedule: FaultSchedule | None = None
        self._settle_seconds = 0.0

    def begin(self) -> None:
        """Let every consumer process something before the first fault: nobody calls one that is not known yet."""
        say("Airflow is up; every consumer gets something to process")
        self._writer.once()

        def known() -> bool:
            self._watch()
            known = chaos_log.known_consumers(self._stage) == chaos_log.EXPECTED_CONSUMERS
            return known and not self._missing() and bool(self._journal.processed(CONTROL, "payments"))

        self._stage.airflow.wait_for("every consumer has begun", known, _BEGIN_SECONDS)

    def suffer(self, kinds: Sequence, *, minutes: float, every: float) -> None:
        """Write, and let faults come, for so many minutes."""
        say("faults begin")
        scene = Scene(stage=self._stage, journal=self._journal, chance=self._chance)
        schedule = self._schedule = FaultSchedule(scene, kinds, every=every, tell=say)
        self._writer.start()
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            schedule.step()
            self._watch()
            time.sleep(0.25)
        say("faults end")
        self._writer.stop()
        schedule.finish()

    def _watch(self) -> None:
        self._journal.follow()
        for name in self._stage.airflow.restart_ended():
            say(f"     {name} had ended, and is started again")

    def settle(self) -> Outcome:
        """Wait until nothing is missing and nothing is held, and a while longer for what may come twice; account."""
        begun, quiet, told = time.monotonic(), 0.0, 0.0

        def is_quiet() -> bool:
            nonlocal quiet, told
            self._watch()
            missing, waiting = self._missing(), chaos_log.waiting(self._stage)
            open_ = bool(missing or waiting)
            if open_ and time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                say(f"{sum(map(len, missing.values()))} items are missing, {len(waiting)} batches wait")
            quiet = 0.0 if open_ else quiet or time.monotonic()
            if not open_ and not self._settle_seconds:
                self._settle_seconds = quiet - begun
            return bool(quiet) and time.monotonic() - quiet >= _QUIET_SECONDS

        try:
            wait_until("everything is processed", is_quiet, _SETTLE_SECONDS, poll=1)
        except HarnessError:
            self._settle_seconds = _SETTLE_SECONDS
        return self._outcome()

    def _missing(self) -> dict[tuple[str, str], set[str]]:
        there = contents(self._stage)
        pairs = [(consumer, asset) for consumer, assets in CONSUMERS.items() for asset in assets]
        dead = chaos_log.dead_items(self._stage)
        missing = {
            pair: there[pair[1]].difference(self._journal.processed(*pair), *dead.get(pair, ())) for pair in pairs
        }
        return {pair: items for pair, items in missing.items() if items}

    def _outcome(self) -> Outcome:
        there, records = contents(self._stage), self._journal.records
        dead = chaos_log.dead_items(self._stage)
        faults = self._schedule.faults if self._schedule else []

        def of(consumer: str, asset: str) -> Account:
            return account(
                consumer,
                asset,
                expected=there[asset],
                records=records,
                faults=faults,
                dead=dead.get((consumer, asset), ()),
            )

        return Outcome(
            accounts=[of(consumer, asset) for consumer, assets in CONSUMERS.items() for asset in assets],
            control=of(CONTROL, "payments"),
            faults=faults,
            counts=chaos_log.consumer_counts(self._stage),
            conflicts=chaos_log.conflicts(self._stage),
            log_faults=chaos_log.log_faults(self._stage),
            recovery=recoveries(
                faults, [each for each in records if each["consumer"] != CONTROL], self._writer.written
            ),
            settle_seconds=self._settle_seconds,
        )

    def explain(self, outcome: Outcome) -> None:
        """Say what is known of everything that went wrong."""
        for each in outcome.accounts:
            for item in sorted(each.lost)[:_SHOWN]:
                say(f"LOST: {each.consumer} {each.asset} {item}: {chaos_log.where(self._stage, each.asset, item)}")
            for text in each.unexplained[:_SHOWN]:
                say(f"REPEATED: {text}")
            for text in each.wrongly_dead[:_SHOWN]:
                say(f"DEAD: {each.consumer} {each.asset}: the batch with {text}")
        for text in outcome.log_faults[:_SHOWN]:
            say(f"LOG: {text}")
        for row in chaos_log.waiting(self._stage)[:_SHOWN]:
            say(f"WAITING: {row}")
        if outcome.failed:
            for row in chaos_log.watermarks(self._stage):
                say(f"WATERMARK: {row}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3, help="how long faults come (default 3)")
    parser.add_argument("--seed", type=int, help="of what is written and of the faults; drawn and printed by default")
    parser.add_argument("--every", type=float, default=6, help="seconds between two faults, on average (default 6)")
    parser.add_argument("--only", action="append", help="only faults whose name has this in it; may be repeated")
    parser.add_argument("--triggerers", type=int, help="how many (default: 2, and 1 before Airflow 3.2)")
    parser.add_argument(
        "--store", choices=("direct", "api"), default="direct", help="how triggers and tasks reach it (default direct)"
    )
    parser.add_argument("--keep", type=Path, help="folder for the logs and the journal")
    parser.add_argument("--json", metavar="FILE", type=Path, required=True, help="where the figures go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
