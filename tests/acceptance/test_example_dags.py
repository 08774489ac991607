"""On a real Airflow with real servers: the example DAGs, as they are, process once what is put in."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import demo
from harness.demo import Demo, found_items, watermark
from harness.processes import family, tail, wait_until
from harness.rest import RestClient

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown() -> Iterator[Demo]:
    """The demo, after it has put things in and seen each of them processed."""
    with demo.running() as running:
        running.show()
        yield running


def test_every_example_is_processed_once(shown: Demo) -> None:
    """Each example DAG has loaded each of its objects, rows and files once, in runs that have all succeeded."""
    examples = {path.stem for path in demo.EXAMPLES.glob("*.py")}
    assert {lane.dag_id for lane in shown.lanes} == examples
    for lane in shown.lanes:
        assert lane.put == sum(demo.WAVES)
        assert dict(lane.loads) == {lane.name(number): 1 for number in range(1, lane.put + 1)}
        assert {run["state"] for run in shown.airflow.finished_runs(lane.dag_id)} == {"success"}
    assert shown.airflow.import_errors() == []


def test_the_store_holds_each_item_in_one_batch(shown: Demo) -> None:
    """The batches of a watermark count as many items as were put in, and the command line shows them."""
    for lane in shown.lanes:
        assert found_items(watermark(shown.airflow, lane.asset)) == lane.put
    header, *rows = demo.report(shown.airflow, shown.lanes).splitlines()
    assert re.split("  +", header.strip())[3:6] == ["items put in", "items found", "processed once"]
    assert len(rows) == len(shown.lanes)


SERVE = """
from harness import demo

demo.Demo.show = lambda self: None
raise SystemExit(demo.main(["--serve"]))
"""


def test_serving_prints_the_address_and_leaves_nothing_when_interrupted() -> None:
    """``./dev demo --serve`` is up until Ctrl-C; then its processes, databases and folders are gone."""
    with tempfile.TemporaryDirectory(prefix="incremental-serve-") as name:
        folder = Path(name).resolve()
        log = folder / "serve.log"
        places = folder / "places"
        places.mkdir()
        with log.open("w") as output:
            serving = subprocess.Popen(
                [sys.executable, "-c", SERVE],
                cwd=ROOT,
                env=os.environ | {"TMPDIR": str(places)},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until("it serves", lambda: _served(serving, log), 240, explain=lambda: tail(log))
            (address,) = re.findall(r"stays up at (\S+)", log.read_text())
            assert RestClient("127.0.0.1", int(address.rpartition(":")[2])).is_up()
            assert family(None, places) != []
            os.killpg(serving.pid, signal.SIGINT)
            assert serving.wait(120) == 0, tail(log)
        finally:
            serving.kill()
        assert "interrupted; everything is stopped" in log.read_text()
        assert family(None, places) == []
        assert list(places.iterdir()) == []


def _served(serving: subprocess.Popen[bytes], log: Path) -> bool:
    assert serving.poll() is None, tail(log)
    return "login: " in log.read_text()
