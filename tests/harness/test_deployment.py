"""A real Airflow runs a DAG, starts one from a watcher, and survives the loss of its triggerer."""

from __future__ import annotations

from textwrap import dedent

import pytest

from harness.deployment import AirflowDeployment
from harness.processes import family

pytestmark = pytest.mark.acceptance

TICKER = """
    from __future__ import annotations

    import asyncio

    from airflow.triggers.base import BaseEventTrigger, TriggerEvent


    class Ticker(BaseEventTrigger):
        def __init__(self, seconds: float) -> None:
            super().__init__()
            self.seconds = seconds

        def serialize(self):
            return "ticker.Ticker", {"seconds": self.seconds}

        async def run(self):
            while True:
                yield TriggerEvent({"tick": True})
                await asyncio.sleep(self.seconds)
"""
DAGS = """
    from airflow.sdk import Asset, AssetWatcher, dag, task

    from ticker import Ticker

    ticks = Asset("ticks", watchers=[AssetWatcher(name="ticker", trigger=Ticker(seconds=2))])


    @dag(schedule=None)
    def by_hand():
        @task
        def say():
            print("said by hand")

        say()


    @dag(schedule=[ticks])
    def by_watcher():
        @task
        def count(triggering_asset_events=None):
            return len(triggering_asset_events[ticks])

        count()


    by_hand()
    by_watcher()
"""


@pytest.fixture(scope="module")
def airflow(postgres_server):
    """A deployment with one DAG that is run by hand and one that a watcher starts."""
    url = postgres_server.create_database()
    deployment = AirflowDeployment(url)
    (deployment.dags / "ticker.py").write_text(dedent(TICKER))
    (deployment.dags / "dags.py").write_text(dedent(DAGS))
    with deployment:
        yield deployment
    assert family(None, deployment.home) == []
    postgres_server.drop_database(url)


def test_a_dag_runs(airflow):
    """A run that is started by hand succeeds and its log can be read."""
    airflow.unpause("by_hand")
    run_id = airflow.trigger_dag("by_hand")
    (run,) = airflow.wait_for("by_hand is done", lambda: airflow.finished_runs("by_hand"))
    assert run["state"] == "success"
    assert "said by hand" in airflow.task_lines("by_hand", run_id)


def test_a_watcher_starts_runs_and_comes_back_after_its_triggerer_is_killed(airflow):
    """Events of the watcher start runs, before and after the triggerer dies."""
    airflow.unpause("by_watcher")
    first = airflow.wait_for("by_watcher is done", lambda: airflow.finished_runs("by_watcher"))
    assert first[0]["state"] == "success"

    airflow.kill_component("triggerer")
    assert family(None, airflow.home / "components" / "triggerer") == []
    seen = len(airflow.asset_events("ticks"))
    airflow.start_component("triggerer")
    airflow.wait_for("another tick", lambda: len(airflow.asset_events("ticks")) > seen)
    airflow.pause("by_watcher")
