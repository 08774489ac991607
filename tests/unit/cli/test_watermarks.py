"""set and rewind: what they change; and which watermarks, consumers, words and stores every command refuses."""

from __future__ import annotations

import io
import json

import pytest

from tests.unit.cli.conftest import CURSOR, NOON, WATCHES


class Terminal(io.StringIO):
    """Somebody who types an answer."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["show", "orders", "--consumer"], "orders"),
        (["dead", "orders", "--consumer"], "orders"),
        (["replay", "orders", "--dead", "--consumer"], "orders"),
        (["forget-consumer", "orders", "--yes"], "orders"),
    ],
)
def test_an_unknown_consumer(store, run, command, where):
    """No command takes a consumer that is not known: the answer names those alike, and how to see all."""
    store.add("orders", cursor=1)
    nobody = run(*command, "loadd")
    assert (nobody.code, nobody.out) == (1, "")
    assert f"'loadd' is not known to {where}. Nobody has consumed it yet" in nobody.err
    store.consume("orders", "load_orders", 1)
    assert "Do you mean load_orders?" in run(*command, "load_order").err
    assert "`airflow-incremental consumers` shows all" in run(*command, "xyz").err


def test_a_name_with_slashes(store, run):
    """An asset's name with slashes is found whole; parts after it are namespace and key."""
    store.add("s3://bucket/orders", cursor=1)
    store.add("s3://bucket/orders", "eu", cursor=2)
    store.add("s3://bucket/orders", "eu", "north", cursor=3)
    for words, position in (
        (["s3://bucket/orders"], 1),
        (["s3://bucket/orders/eu"], 2),
        (["s3://bucket/orders/eu/north"], 3),
        (["s3://bucket/orders", "--namespace", "eu"], 2),
        (["s3://bucket/orders", "--namespace", "eu", "--key", "north"], 3),
        (["--asset", "s3://bucket/orders"], 1),
        (["--asset", "s3://bucket/orders", "--namespace", "eu"], 2),
    ):
        assert run("show", *words, "-o", "json").json["position"] == position


def test_an_ambiguous_name(store, run):
    """A text that can mean two watermarks changes neither, and is answered with how to name each."""
    store.add("a/b", cursor=1)
    store.add("a", "b", cursor=2)
    refused = run("set", "a/b", "5")
    assert (refused.code, refused.out) == (1, "")
    assert "--asset 'a/b' --namespace 'default' --key 'default'" in refused.err
    assert run("set", "--asset", "a/b", "5").code == 0
    assert (store.load("a/b").cursor, store.load("a", "b").cursor) == (5, 2)


@pytest.mark.parametrize("command", [["show"], ["set", "--rewatch"], ["rewind", "--to", "earliest", "--yes"]])
def test_an_unknown_watermark(store, run, command):
    """No command makes a watermark: an unknown name is answered with names like it."""
    store.add("orders", cursor=1)
    store.add("orders", "eu", cursor=1)
    refused = run(command[0], "ordrs", *command[1:])
    assert (refused.code, refused.out) == (1, "")
    assert "there is no watermark 'ordrs'. Do you mean orders" in refused.err
    assert "orders/eu" in run(command[0], "orders/us", *command[1:]).err
    assert store.load("ordrs") is None


def test_an_empty_store_may_be_the_wrong_one(run):
    """Where there is no watermark at all, the answer points at the setting of the store."""
    refused = run("show", "orders")
    assert refused.code == 1
    assert "[incremental] store" in refused.err


def test_set(store, run):
    """A position is set, read by the type of the present one; a poll that was under way gets a conflict."""
    before = store.add("orders", cursor=CURSOR)
    done = run("set", "orders", '["2026-01-30T00:00:00Z", 7]')
    assert done.code == 0
    assert '["2026-01-31T12:00:00+00:00", 42]' in done.out
    after = store.load("orders")
    assert (after.cursor, after.watches) == ((NOON.replace(day=30, hour=0), 7), WATCHES)
    assert (after.version, after.reread_after_seq) == (before.version + 1, before.reread_after_seq)


def test_set_takes_the_position_behind_options(store, run):
    """Where people write it."""
    store.add("orders", cursor=5)
    assert run("set", "orders", "--force", "7").code == 0
    assert store.load("orders").cursor == 7
    wrong = run("set", "orders", "--force", "7", "8")
    assert (wrong.code, "unrecognized arguments: 7 8" in wrong.err) == (2, True)


def test_set_from_json(store, run):
    """A position from show --output json is taken as it is by set --json."""
    store.add("orders", cursor=CURSOR)
    shown = run("show", "orders", "-o", "json").json["position"]
    run("set", "orders", '["2000-01-01T00:00:00Z", 0]')
    assert run("set", "orders", "--json", json.dumps(shown), "-o", "json").json["position"] == shown
    assert store.load("orders").cursor == CURSOR


def test_set_negative(store, run):
    """A negative number is a position, not an option."""
    store.add("orders", cursor=5)
    assert run("set", "orders", "-7").code == 0
    assert store.load("orders").cursor == -7


def test_set_refuses_another_type(store, run):
    """A position of another type changes nothing, and --force sets it all the same."""
    store.add("orders", cursor=5)
    refused = run("set", "orders", "yesterday")
    assert (refused.code, refused.out) == (1, "")
    assert "'yesterday' is no integer, as 5 is" in refused.err
    assert store.load("orders").version == 1
    assert run("set", "orders", "yesterday", "--force").code == 0
    assert store.load("orders").cursor == "yesterday"


def test_set_rewatch_keeps_the_position(store, run):
    """Set --rewatch forgets what is watched and keeps the position."""
    store.add("orders", cursor=CURSOR)
    assert "the next trigger decides" in run("set", "orders", "--rewatch").out
    after = store.load("orders")
    assert (after.cursor, after.watches) == (CURSOR, None)


def test_set_rewatch_decides_no_start(store, run):
    """A watermark that was never polled has no position to keep: its trigger's start="latest" is not overruled."""
    store.add("orders", batches=0)
    assert "the next trigger decides" in run("set", "orders", "--rewatch").out
    after = store.load("orders")
    assert (after.started, after.watches) == (False, None)


def test_rewind(store, run):
    """A rewind sets the position, and what was delivered before counts as not seen any more."""
    store.add("orders", cursor=CURSOR, batches=3)
    assert run("rewind", "orders", "--to", '["2026-01-30T00:00:00Z", 7]', "--yes").code == 0
    after = store.load("orders")
    assert (after.cursor, after.reread_after_seq, after.watches) == ((NOON.replace(day=30, hour=0), 7), 3, WATCHES)


def test_rewind_to_earliest(store, run):
    """Earliest is the very start, not a value; with --rewatch the source is forgotten too."""
    store.add("orders", cursor=CURSOR)
    shown = run("rewind", "orders", "--to", "earliest", "--rewatch", "--yes", "-o", "json").json
    assert (shown["position"], shown["watches"], shown["started"]) == (None, None, True)
    assert store.load("orders").cursor is None


@pytest.mark.parametrize("cursor", [5, "a key"])
@pytest.mark.parametrize("word", ["latest", "Latest", "now"])
def test_rewind_to_latest(store, run, cursor, word):
    """A word that means the other end is refused, also where any text is a position; --force takes it as one."""
    store.add("orders", cursor=cursor)
    refused = run("rewind", "orders", "--to", word, "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert f"--to {word} is no way back; give earliest" in refused.err
    assert store.load("orders").cursor == cursor
    assert run("rewind", "orders", "--to", word, "--yes", "--force").code == 0
    assert store.load("orders").cursor == word


@pytest.mark.parametrize(("cursor", "ahead"), [(5, "6"), ("0007", "zzzz"), (CURSOR, '["2026-02-01T00:00:00Z", 1]')])
def test_rewind_does_not_skip(store, run, cursor, ahead):
    """A position ahead of the present one is refused, since what is between would never come; --force takes it."""
    store.add("orders", cursor=cursor)
    refused = run("rewind", "orders", "--to", ahead, "--yes")
    assert (refused.code, "lies ahead of the watermark" in refused.err) == (1, True)
    assert store.load("orders").cursor == cursor
    assert run("rewind", "orders", "--to", ahead, "--yes", "--force").code == 0


def test_rewind_to_what_is_no_position(store, run):
    """The message offers earliest; the start as show writes it is the very start as well."""
    store.add("orders", cursor=5)
    assert "give --to earliest" in run("rewind", "orders", "--to", "foo", "--yes").err
    assert run("rewind", "orders", "--to", "(start)", "--yes").code == 0
    assert store.load("orders").cursor is None


@pytest.mark.parametrize(
    ("answer", "moved"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_rewind_asks(store, run, monkeypatch, answer, moved):
    """Without --yes somebody is asked, told from where to where; only a yes goes on."""
    store.add("orders", cursor=5)
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    done = run("rewind", "orders", "--to", "3")
    assert "from 5 to 3" in done.err
    assert done.code == (0 if moved else 1)
    assert store.load("orders").cursor == (3 if moved else 5)


def test_rewind_asks_nobody(store, run, monkeypatch):
    """Where nobody can be asked, nothing is done without --yes."""
    store.add("orders", cursor=5)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    refused = run("rewind", "orders", "--to", "3")
    assert refused.code == 1
    assert "--yes" in refused.err
    assert store.load("orders").cursor == 5


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "orders"], "VALUE, --json or --rewatch"),
        (["set", "orders", "5", "--json", "5"], "not both"),
        (["set"], "WATERMARK"),
        (["show"], "WATERMARK"),
        (["show", "orders", "--asset", "orders"], "not both"),
        (["set", "orders", "5", "--asset", "orders"], "not both"),
        (["rewind", "orders"], "--to"),
        (["show", "orders", "--batches", "-1"], "--batches"),
        (["show", "orders", "--output", "xml"], "--output"),
        (["explode"], "explode"),
        ([], "COMMAND"),
    ],
)
def test_wrong_usage(run, words, says):
    """Wrong usage exits with 2, says what is wrong, and prints nothing else."""
    wrong = run(*words)
    assert (wrong.code, wrong.out) == (2, "")
    assert says in wrong.err


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://app:hunter2@127.0.0.1:1/none", "cannot be reached"),
        (
            "oracle://app:hunter2@db/x",
            "postgresql://, mysql://, mariadb://, sqlite:///, api+https://, memory://, s3://",
        ),
        ("conn:nowhere", "AIRFLOW_CONN_"),
    ],
)
@pytest.mark.parametrize("command", [["list"], ["show", "orders"], ["db", "check"], ["db", "upgrade"]])
def test_a_store_that_is_not_there(run, command, url, says):
    """A store that cannot be opened is one clear line, without its password, and exit code 1."""
    refused = run(*command, url=url)
    assert (refused.code, refused.out) == (1, "")
    assert says in refused.err.splitlines()[-1]
    assert "hunter2" not in refused.err
    assert "Traceback" not in refused.err


@pytest.mark.parametrize("command", [["list"], ["show", "orders"], ["set", "orders", "5"], ["db", "check"]])
def test_an_unmigrated_store(run, tmp_path, command):
    """A database without tables is answered with the command that makes them; a file that is not there is not made."""
    (tmp_path / "new.db").touch()
    for path in (tmp_path / "new.db", tmp_path / "nowhere" / "none.db", tmp_path / "none.db"):
        refused = run(*command, url=f"sqlite:///{path}")
        assert (refused.code, refused.out) == (1, "")
        assert "airflow-incremental db upgrade" in refused.err
    assert not (tmp_path / "none.db").exists()
