"""list and show: what they print of watermarks, their batches and their consumers."""

from __future__ import annotations

import asyncio

from airflow_provider_incremental.cli.main import main
from airflow_provider_incremental.core.store import Selector
from airflow_provider_incremental.core.values import encode
from airflow_provider_incremental.stores.memory import MemoryStore
from tests.served import serving
from tests.unit.cli.conftest import CURSOR, WATCHES


def test_list_of_nothing(run):
    """A store without watermarks says so, and in JSON is an empty list."""
    assert "no watermarks yet" in run("list").out
    assert run("list", "--output", "json").json == []


async def test_list_of_nothing_that_may_be_seen(tmp_path, capsys):
    """Of an API, whose token may have namespaces, it says that there may be others."""
    async with serving(MemoryStore(), tmp_path) as served:
        assert await asyncio.to_thread(main, ["list", "--store", served.url]) == 0
    assert "no watermarks yet, or none that you may see" in capsys.readouterr().out


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
