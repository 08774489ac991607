"""The demo: objects and rows put into real servers become batches and finished DAG runs on a real Airflow.

Ends by itself with what was found and processed, or with the reason why not; `--serve` keeps it running instead.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg2

from airflow_provider_incremental.cli.positions import written
from airflow_provider_incremental.core.values import decode
from harness import homes, servers
from harness.demo_lanes import BUCKET, SHOP_TABLES, Lane, lanes
from harness.deployment import AirflowDeployment
from harness.environments import ROOT
from harness.processes import HarnessError

__all__ = ["main"]

EXAMPLES = ROOT / "example_dags"
WAVES = (3, 2)
_WAVE_SECONDS = 240
_ALL_BATCHES = 1000
_started = time.monotonic()
_SILENT = 20.0
"""Seconds after which the demo says what it waits for, when there was nothing else to say."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--serve", action="store_true", help="keep everything running until interrupted")
    options = parser.parse_args(arguments)
    # Asked to end, the demo ends what it has started; a shell lets its background jobs ignore an interrupt.
    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, signal.default_int_handler)
    try:
        with running() as demo:
            demo.show()
            if options.serve:
                demo.serve()
            say("stopping everything")
    except HarnessError as error:
        say(f"FAILED: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; everything is stopped")
        return 0 if options.serve else 1
    say("done: everything was found and processed exactly once")
    return 0


def say(text: str) -> None:
    """Tell what happens, and when."""
    print(f"[{time.monotonic() - _started:5.1f} s] {text}", flush=True)


@contextmanager
def running() -> Iterator[Demo]:
    """Start the servers and Airflow, and end them all with the context."""
    say("starting PostgreSQL and S3")
    with (
        homes.home("reports") as folder,
        servers.postgres() as database,
        servers.s3() as s3,
        closing(s3.client()) as s3_client,
    ):
        s3_client.create_bucket(Bucket=BUCKET)
        shop = database.create_database("shop")
        with closing(psycopg2.connect(shop)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(SHOP_TABLES)
        say("starting Airflow: api-server, scheduler, DAG processor and triggerer (about half a minute)")
        environment = {
            "AIRFLOW_CONN_AWS_DEFAULT": s3.airflow_connection(),
            "AIRFLOW_CONN_SHOP": shop,
            "REPORTS_FOLDER": str(folder),
        }
        metadata = database.create_database("airflow")
        with AirflowDeployment(metadata, dags=EXAMPLES, environment=environment) as airflow:
            say(f"Airflow is up at {airflow.url}")
            yield Demo(airflow, lanes(s3_client=s3_client, shop=shop, folder=folder))


@dataclass
class Demo:
    """A running Airflow with the example DAGs, and the lanes that lead into it."""

    airflow: AirflowDeployment
    lanes: list[Lane]

    def show(self) -> None:
        """Put things in, wave by wave, and watch each of them being processed; fail unless all are, once."""
        for lane in self.lanes:
            parsed = partial(self._is_parsed, lane)
            self._wait_for(lambda lane=lane: f"{lane.dag_id} to be parsed", parsed, timeout=120)
            self.airflow.unpause(lane.dag_id)
            say(f"unpaused {lane.dag_id}, which {lane.asset} starts")
        for count in WAVES:
            self._wave(count)
        print(report(self.airflow, self.lanes), flush=True)
        if repeated := {lane.asset: lane.repeated() for lane in self.lanes if lane.repeated()}:
            msg = f"processed more than once: {repeated}"
            raise HarnessError(msg)

    def _is_parsed(self, lane: Lane) -> bool:
        if errors := self.airflow.import_errors():
            reasons = "\n".join(f"{error['filename']}:\n{error['stack_trace']}" for error in errors)
            msg = f"an example DAG cannot be imported:\n{reasons}"
            raise HarnessError(msg)
        return self.airflow.dag(lane.dag_id) is not None

    def _wave(self, count: int) -> None:
        for lane in self.lanes:
            lane.put_in(count)
            say(f"put in {count} {lane.things}")
        waiting = list(self.lanes)

        def processed() -> bool:
            for lane in list(waiting):
                if lane.is_processed(self.airflow):
                    waiting.remove(lane)
                    say(f"{lane.asset}: {lane.put} of {lane.put} processed, in {len(lane.seen_runs)} DAG runs so far")
            return not waiting

        def missing() -> str:
            return ", ".join(f"{len(lane.missing())} {lane.things} ({lane.asset})" for lane in waiting)

        self._wait_for(missing, processed, timeout=_WAVE_SECONDS)

    def _wait_for(self, what: Callable[[], str], condition: Callable[[], bool], timeout: float) -> None:
        self.airflow.wait_for(what(), Patience(what).with_words(condition), timeout=timeout)

    def serve(self) -> None:
        """Keep everything running until an interrupt, or until a part of it ends by itself."""
        say(f"Airflow stays up at {self.airflow.url}")
        say("login: none is needed, everybody is administrator; Ctrl-C ends everything")
        self.airflow.wait_for("an interrupt", lambda: False, timeout=float("inf"))


@dataclass
class Patience:
    """Says what is waited for, each time that it takes long.

    :param what: what is still missing.
    """

    what: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    tell: Callable[[str], None] = say

    def with_words(self, condition: Callable[[], bool]) -> Callable[[], bool]:
        """Return a condition that is asked again and again, and does not keep silent."""
        told, shown = self.clock(), self.what()

        def answer() -> bool:
            nonlocal told, shown
            if condition():
                return True
            now = self.what()
            if now != shown:
                told, shown = self.clock(), now
            if self.clock() - told >= _SILENT:
                self.tell(f"still waiting for {now}")
                told = self.clock()
            return False

        return answer


def report(airflow: AirflowDeployment, taken: list[Lane]) -> str:
    """Return a table of what the store, the task logs and Airflow say about each lane."""
    header = ("watermark", "position", "batches", "items put in", "items found", "processed once", "DAG runs")
    rows = [header]
    for lane in taken:
        entry = watermark(airflow, lane.asset)
        found = found_items(entry)
        once = sum(times == 1 for times in lane.loads.values())
        runs = len(airflow.finished_runs(lane.dag_id))
        rows.append((lane.asset, written(decode(entry["position"])), entry["batches"], lane.put, found, once, runs))
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def watermark(airflow: AirflowDeployment, asset: str) -> dict[str, Any]:
    """Return what the command line says of an asset's watermark and of all its batches."""
    shown = airflow.program("airflow-incremental", "show", asset, "--batches", str(_ALL_BATCHES), "--output", "json")
    return dict(json.loads(shown))


def found_items(entry: dict[str, Any]) -> int:
    """Return how many items the batches of a watermark hold."""
    return sum(batch["count"] for batch in entry["last_batches"])


if __name__ == "__main__":
    sys.exit(main())
