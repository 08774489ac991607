"""consumers, dead, replay, journal and forget: what they print, what they change, and what they refuse."""

from __future__ import annotations

import getpass
import io
import re
import socket

import pytest

from tests.unit.cli.test_watermarks import Terminal


@pytest.fixture
def busy(store):
    """A store whose orders have three batches: load finished two, report failed at one for good."""
    store.add("orders", cursor=1, batches=3)
    store.add("orders", "eu", cursor=1)
    store.add("returns", cursor=1)
    store.consume("orders", "load", 3)
    store.consume("returns", "report", 1, dead=True)
    return store


def test_nothing_yet(run):
    """A store without consumers, dead batches or changes says so, and in JSON each is an empty list."""
    for command in ("consumers", "dead", "journal"):
        assert run(command).out.startswith(("no consumers yet", "no dead batches", "nothing was changed by hand"))
        assert run(command, "--output", "json").json == []


@pytest.mark.usefixtures("busy")
def test_consumers(run):
    """Each consumer has a line on each watermark, with what it has finished, what waits, and what is dead."""
    lines = [line.split()[:5] for line in run("consumers").out.splitlines()[1:]]
    assert lines == [
        ["orders", "load", "3", "0", "0"],
        ["orders/eu", "load", "0", "1", "0"],
        ["returns", "report", "1", "0", "1"],
    ]
    shown = run("consumers", "orders", "-o", "json").json
    assert [(each["watermark"], each["waiting"]) for each in shown] == [("orders", 0), ("orders/eu", 1)]
    assert "Do you mean orders" in run("consumers", "order").err


@pytest.mark.usefixtures("busy")
def test_a_consumer_that_does_not_come_back(run, monkeypatch):
    """A consumer for which nothing is announced any more is shown as away."""
    assert "away" not in run("consumers").out
    monkeypatch.setattr("airflow_provider_incremental.cli.tables.RETURNS_WITHIN", 0.0)
    assert "away for 0 days: nothing is announced for it" in run("consumers").out


@pytest.mark.usefixtures("busy")
def test_dead(run):
    """A dead batch is shown with its consumer, its attempts and its error."""
    (line,) = run("dead").out.splitlines()[1:]
    assert re.fullmatch(r"returns +1 +report +1 +1 +\S+ \S+Z +division by zero", line)
    (found,) = run("dead", "returns", "--consumer", "report", "-o", "json").json
    assert (found["consumer"], found["error"], found["batch"]["seq"]) == ("report", "division by zero", 1)
    assert run("dead", "orders", "--consumer", "load").out == "no dead batches\n"


def test_replay_what_is_dead(busy, run):
    """Dead batches are given to their consumer again, at once and without a question."""
    assert run("replay", "returns", "--dead").out.splitlines()[1].split() == ["to", "report", "1", "batch"]
    assert busy.pending("returns", "report") == [1]
    assert run("dead").out == "no dead batches\n"


def test_replay_a_range(busy, run):
    """A range of the log is given to all consumers, or to one, from the log."""
    busy.consume("orders", "audit", 4)
    assert busy.pending("orders", "load") == []
    assert run("replay", "orders", "--from", "2", "--to", "2", "--consumer", "load", "--yes").code == 0
    assert (busy.pending("orders", "load"), busy.pending("orders", "audit")) == ([2], [])
    assert "the others" in run("replay", "orders", "--from", "2", "--to", "2", "--consumer", "load", "--yes").out
    assert run("replay", "orders", "--from", "2", "--yes", "-o", "json").json["batches"] == {"audit": 2, "load": 1}
    assert (busy.pending("orders", "load"), busy.pending("orders", "audit")) == ([2, 3], [2, 3])


def test_replay_refuses_what_is_not_there(busy, run):
    """A range behind the newest batch, and a watermark that nobody consumes, are answered with what is the case."""
    assert "is behind the newest batch of orders, which is 3" in run("replay", "orders", "--from", "4", "--yes").err
    busy.add("new", cursor=None, batches=0)
    assert "new has no batches yet" in run("replay", "new", "--dead").err
    busy.add("silent", cursor=1)
    refused = run("replay", "silent", "--from", "1", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "nobody consumes silent yet" in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["replay", "orders"], "--from SEQ and --to SEQ, or --dead"),
        (["replay", "orders", "--from", "3", "--to", "2"], "--from 3 is behind --to 2"),
        (["replay", "--dead"], "WATERMARK"),
        (["forget"], "WATERMARK"),
        (["forget-consumer", "orders"], "NAME"),
        (["journal", "--key", "eu"], "WATERMARK"),
    ],
)
def test_wrong_usage(run, words, says):
    """Wrong usage exits with 2 and says what is wrong."""
    wrong = run(*words)
    assert (wrong.code, wrong.out) == (2, "")
    assert says in wrong.err


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["forget", "orders/eu"], "1 wait for load"),
        (["forget-consumer", "orders", "load"], "1 batch that it has not finished"),
        (["replay", "orders", "--from", "1", "--to", "2"], "batches 1 to 2 of orders are given again to load"),
    ],
)
def test_what_cannot_be_undone_is_asked(run, monkeypatch, command, told):
    """Without --yes somebody is told what will happen and asked; where nobody can be, nothing is done."""
    before = run("consumers").out
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert "repeat it with --yes" in run(*command).err
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    refused = run(*command)
    assert (refused.code, refused.out) == (1, "")
    assert told in refused.err
    assert run("consumers").out == before
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert run(*command).code == 0
    assert run("consumers").out != before


def test_forget(busy, run):
    """A watermark is deleted with its batches; the others of its asset stay."""
    assert run("forget", "orders/eu", "--yes").out == "watermark orders/eu is deleted\n"
    assert busy.load("orders", "eu") is None
    assert busy.load("orders") is not None
    assert "there is no watermark 'orders/eu'" in run("forget", "orders/eu", "--yes").err


@pytest.mark.usefixtures("busy")
def test_forget_a_consumer(run):
    """A consumer is deleted on every watermark of the asset, or on those of a namespace."""
    assert run("forget-consumer", "orders", "load", "--namespace", "eu", "--yes", "-o", "json").json == {
        "consumer": "load",
        "forgotten_on": ["orders/eu"],
    }
    assert run("forget-consumer", "orders", "load", "--yes").out == "consumer load is deleted on orders\n"
    assert [each["consumer"] for each in run("consumers", "-o", "json").json] == ["report"]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("command", "operation", "detail"),
    [
        (["set", "orders", "7"], "rewind", "from 1 to 7"),
        (["set", "orders", "--rewatch"], "rewatch", "may watch another source"),
        (["rewind", "orders", "--to", "earliest", "--yes"], "rewind", "delivers again"),
        (["replay", "orders", "--from", "1", "--yes"], "replay", "batches 1 to 3: 3 to load"),
        (["forget", "orders", "--yes"], "forget", "deleted"),
        (["forget-consumer", "orders", "load", "--namespace", "default", "--yes"], "unsubscribe", "load"),
    ],
)
def test_every_change_by_hand_is_in_the_journal(run, command, operation, detail):
    """Each change is recorded with who did it and why: as given, or the user of this machine and no reason."""
    assert run(*command, "--reason", "bad data", "--who", "ops").code == 0
    (entry,) = run("journal", "orders", "-o", "json").json
    assert (entry["operation"], entry["who"], entry["why"]) == (operation, "ops", "bad data")
    assert detail in entry["detail"]
    shown = run("journal").out.splitlines()[1]
    assert "bad data" in shown


@pytest.mark.usefixtures("busy")
def test_who_by_default(run):
    """Who does not say who he is, is the user of this machine."""
    run("set", "orders", "7")
    (entry,) = run("journal", "-o", "json").json
    assert (entry["who"], entry["why"]) == (f"{getpass.getuser()}@{socket.gethostname()}", None)


@pytest.mark.usefixtures("busy")
def test_the_journal_of_one_watermark(run):
    """The journal of a watermark has its changes only, newest first; an unknown one is named with those alike."""
    for position in ("7", "8", "9"):
        run("set", "orders", position)
    run("set", "returns", "7")
    found = run("journal", "orders", "--entries", "2", "-o", "json").json
    assert [each["detail"] for each in found] == ["from 8 to 9", "from 7 to 8"]
    assert run("journal", "orders/eu").out == "nothing was changed by hand\n"
    assert "Do you mean orders" in run("journal", "ordrs").err
