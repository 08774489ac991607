"""list, show, set and rewind: what they print, what they change, and what they refuse."""

from __future__ import annotations

import io
import json

import pytest

from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.values import encode
from tests.unit.cli.conftest import NOON, WATCHES

CURSOR = (NOON, 42)


class Terminal(io.StringIO):
    """Somebody who types an answer."""

    def isatty(self) -> bool:
        return True


def test_list_of_nothing(run):
    """A store without watermarks says so, and in JSON is an empty list."""
    assert "no watermarks yet" in run("list").out
    assert run("list", "--output", "json").json == []


def test_list(store, run):
    """Each watermark has a line with its position and its state."""
    store.add("orders", cursor=CURSOR)
    store.add("orders", "eu", cursor=7)
    store.report("orders", "eu", error="no such table", failures=3)
    lines = run("list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["WATERMARK", "orders", "orders/eu"]
    assert '["2026-01-31T12:00:00+00:00", 42]' in lines[1]
    assert lines[1].endswith("ok")
    assert lines[2].endswith("failing (3 in a row): no such table")


def test_list_one_asset(store, run):
    """With an asset only its watermarks are listed; one that has none is named with those alike."""
    store.add("orders", cursor=1)
    store.add("orders", "eu", "b", cursor=1)
    store.add("returns", cursor=1)
    assert [each["watermark"] for each in run("list", "orders", "-o", "json").json] == ["orders", "orders/eu/b"]
    missing = run("list", "return")
    assert (missing.code, missing.out) == (1, "")
    assert "Do you mean returns?" in missing.err


def test_list_cuts_what_is_long_and_hides_what_steers_a_terminal(store, run):
    """A cell is one line of bounded width, whatever an error of the source holds."""
    store.add("orders", cursor=1)
    store.report("orders", error="\x1b[2J\nlines " + "x" * 500, failures=1)
    _, line = run("list").out.splitlines()
    assert "\\x1b[2J\\nlines" in line
    assert len(line) < 250


def test_show(store, run):
    """One watermark is shown with all that is known of it, and its last batches without their items."""
    store.add("orders", cursor=CURSOR, batches=7)
    store.report("orders", conflicts=2, late_skipped=3, note="held back by a long transaction")
    shown = run("show", "orders").out
    for fact in (WATCHES.source, WATCHES.cursor, "held back by a long transaction", "conflicts", "late and skipped"):
        assert fact in shown
    table = shown.split("\n\n")[1].splitlines()
    assert [line.split()[0] for line in table] == ["BATCH", "7", "6", "5", "4", "3"]
    assert "secret item" not in shown


def test_show_json(store, run):
    """In JSON the position is tagged, the status complete, and the batches as many as asked for."""
    store.add("orders", "eu", cursor=CURSOR, batches=3)
    store.report("orders", "eu", error="broken", failures=1)
    shown = run("show", "orders/eu", "--output", "json", "--batches", "2").json
    assert shown["position"] == encode(CURSOR)
    assert (shown["asset"], shown["namespace"], shown["key"]) == ("orders", "eu", "default")
    assert shown["watches"] == {"source": WATCHES.source, "cursor": WATCHES.cursor}
    assert shown["status"]["last_error"] == "broken"
    assert [batch["seq"] for batch in shown["last_batches"]] == [3, 2]
    assert shown["last_batches"][0]["id"] == store.history("orders", "eu")[0].id


def test_show_consumer(store, run):
    """With a consumer, the batches that wait for it are counted."""
    watermark = store.add("orders", cursor=1, batches=3)
    selector = Selector("orders")

    async def work(opened):
        await opened.subscribe(selector, "load", "earliest")
        claim = await opened.claim(selector, "load", "me", 60)
        await opened.acknowledge(claim)

    store(work)
    assert watermark.last_seq == 3
    assert "the oldest batch that waits for load is 2" in run("show", "orders", "--consumer", "load").out
    shown = run("show", "orders", "--consumer", "load", "-o", "json").json
    assert [batch["seq"] for batch in shown["pending"]] == [2, 3]


def test_show_lists_the_consumers(store, run):
    """Each consumer is shown with what it has finished and what waits for it; with a name, that one alone."""
    store.add("orders", cursor=1, batches=3)
    store.consume("orders", "load", 2)
    store.consume("orders", "report", 0)
    table = run("show", "orders").out.split("\n\n")[1].splitlines()
    assert [line.split()[:4] for line in table[1:]] == [["load", "2", "1", "0"], ["report", "0", "3", "0"]]
    assert [each["consumer"] for each in run("show", "orders", "-o", "json").json["consumers"]] == ["load", "report"]
    alone = run("show", "orders", "--consumer", "load").out
    assert "load" in alone
    assert "report" not in alone


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


def test_list_counts_what_waits_and_what_is_dead(store, run):
    """The list says how many batches wait for the slowest consumer and how many are dead; nothing where nobody is."""
    store.add("orders", cursor=1, batches=3)
    store.add("returns", cursor=1)
    store.consume("orders", "load", 2)
    store.consume("orders", "report", 0)
    store.consume("orders", "report", 1, dead=True)
    heads, orders, returns = (line.split() for line in run("list").out.splitlines())
    assert heads[3:5] == ["WAITING", "DEAD"]
    assert (orders[3:5], returns[3:5]) == (["2", "1"], ["-", "-"])
    assert [(each["waiting"], each["dead"]) for each in run("list", "-o", "json").json] == [(2, 1), (None, None)]


def test_a_watermark_that_nobody_polls_any_more(store, run):
    """Is called stale in list and show, with what to look at; and so is one that was failing before."""
    store.add("orders", cursor=1)
    store.report_long_ago("orders", next_poll_in=5)
    store.add("returns", cursor=1)
    store.report_long_ago("returns", next_poll_in=10, error="no such table", failures=2)
    store.add("fresh", cursor=1)
    store.report("fresh", next_poll_in=5)
    lines = run("list").out.splitlines()
    assert ["stale: not polled for 5m00s (expected every" in line for line in lines[1:]] == [False, True, True]
    shown = run("show", "orders").out
    assert "is the triggerer up, a DAG of the asset unpaused, and the watcher attached?" in shown
    assert "Before that: failing, no such table" in run("show", "returns").out
    statuses = [each["status"]["stale"] for each in run("list", "-o", "json").json]
    assert statuses == [False, True, True]


def test_list_wide(store, run):
    """With --wide an error is shown to its end."""
    store.add("orders", cursor=1)
    store.report("orders", error="x" * 500 + " the end", failures=1)
    assert "the end" not in run("list").out
    assert run("list", "--wide").out.rstrip().endswith("the end")


def test_show_after_an_error(store, run):
    """An error that is over is not shown as if it were there: its time says so."""
    store.add("orders", cursor=1)
    store.report("orders", error="no such table", failures=1)
    assert "it is over" not in run("show", "orders").out
    store.report("orders")
    line = next(line for line in run("show", "orders").out.splitlines() if line.startswith("last error at"))
    assert line.endswith("(it is over)")


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
        ("oracle://app:hunter2@db/x", "postgresql://"),
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
