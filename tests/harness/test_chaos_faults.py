"""What a chaos run breaks is broken, and mended again: servers, networks, and the order in which faults come."""

from __future__ import annotations

import random
import time
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import psycopg2
import pytest

from harness import postgres_server
from harness.chaos_faults import Blow, Kind, Scene
from harness.chaos_schedule import FaultSchedule
from harness.processes import HarnessError
from harness.tcp_proxy import network_to


def ask(url: str) -> Any:
    """Ask a database something, by a connection of its own."""
    with closing(psycopg2.connect(url, connect_timeout=2)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM kept")
        return cursor.fetchone()


def test_a_crashed_server_comes_back_with_every_commit_that_it_had_answered() -> None:
    """Otherwise the harness would lose what the package did not."""
    with postgres_server.restartable({"synchronous_commit": "on"}) as (server, service):
        with closing(psycopg2.connect(server.url)) as connection:
            with connection, connection.cursor() as cursor:
                cursor.execute("CREATE TABLE kept (id int)")
            for number in range(50):
                with connection, connection.cursor() as cursor:
                    cursor.execute("INSERT INTO kept VALUES (%s)", (number,))
            service.kill()
            with pytest.raises(psycopg2.OperationalError):
                psycopg2.connect(server.url)
        service.start()
        assert ask(server.url) == (50,)


def test_a_network_is_cut_slowed_and_mended(postgres_server: Any) -> None:
    """Each shows at a client, and is over when it is mended."""
    with network_to(postgres_server.host, postgres_server.port) as network:
        login = f"{postgres_server.user}:{postgres_server.password}"
        url = f"postgresql://{login}@127.0.0.1:{network.port}/{postgres_server.database}"

        def seconds() -> float:
            start = time.monotonic()
            psycopg2.connect(url, connect_timeout=2).close()
            return time.monotonic() - start

        with closing(psycopg2.connect(url)) as connection:
            network.cut()
            with pytest.raises(psycopg2.OperationalError):
                connection.cursor().execute("SELECT 1")
        with pytest.raises(psycopg2.OperationalError):
            seconds()
        network.mend()
        seconds()
        network.slow(0.2)
        assert seconds() > 0.4
        network.hang()
        with pytest.raises(psycopg2.OperationalError, match="timeout"):
            seconds()
        network.mend()
        seconds()


def schedule(kinds: list[Kind], every: float = 0.0) -> FaultSchedule:
    """A schedule whose faults touch nothing."""
    stage: Any = SimpleNamespace()
    scene = Scene(stage=stage, journal=SimpleNamespace(), chance=random.Random(7))
    return FaultSchedule(scene, kinds, every=every, tell=lambda _: None)


def kind(name: str, strike: Any, *targets: str) -> Kind:
    """A kind that leaves its target alone for an hour."""
    return Kind(name=name, targets=lambda _: targets or (name,), strike=strike, rest=3600)


def test_a_target_is_left_alone_after_a_fault() -> None:
    """So that something happens between two of them."""
    faults = schedule([kind("cut", lambda *_: Blow(), "store", "source")])
    for _ in range(5):
        faults.step()
    assert sorted(fault.target for fault in faults.faults) == ["source", "store"]


def test_where_there_is_nothing_to_hit_another_kind_comes() -> None:
    """A strike that finds no target counts as no fault."""
    faults = schedule([kind("nothing", lambda *_: None), kind("cut", lambda *_: Blow())])
    faults.step()
    assert [fault.kind for fault in faults.faults] == ["cut"]


def test_every_fault_is_undone_however_often_that_has_to_be_tried() -> None:
    """What it is undone by may be down itself."""
    answers = [HarnessError("Airflow is down"), OSError("refused"), None]

    def undo() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    faults = schedule([kind("pause", lambda *_: Blow(undo=undo))])
    faults.step()
    assert faults.faults[0].ended == float("inf")
    faults.finish()
    assert answers == []
    assert faults.faults[0].ended < float("inf")
